"""Instructions for the model: the form of answer that a parser reads. `{schema}` is replaced by the schema."""

from __future__ import annotations

JSON_FORMAT_INSTRUCTIONS = """\
Answer with one JSON value that fits the JSON schema below, and with nothing else: no words before or after it, no \
code fence, no comments.

For example, the schema {{"properties": {{"colours": {{"type": "array", "items": {{"type": "string"}}}}}}, \
"required": ["colours"]}} is met by {{"colours": ["red", "blue"]}}, and not by \
{{"properties": {{"colours": ["red", "blue"]}}}}.

The schema:
```
{schema}
```"""

PYDANTIC_FORMAT_INSTRUCTIONS = JSON_FORMAT_INSTRUCTIONS

XML_FORMAT_INSTRUCTIONS = """\
Answer with one XML document and nothing else.
- Use these tags, or if none are listed, tags of your own: {tags}
- Close every tag you open, in the right order: <story><title>...</title></story>.
- Write & as &amp; and < as &lt; inside texts. Do not declare entities or a document type."""
