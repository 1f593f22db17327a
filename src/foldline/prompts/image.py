"""`ImagePromptTemplate`: an image by its URL. No file is read: pass a file as a `data:` URL."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, cast

from pydantic import Field, model_validator

from foldline.exceptions import UsageError
from foldline.prompt_values import ImagePromptValue, ImageURL, PromptValue
from foldline.prompts._compile import PromptTemplateFormat, compile_prompt
from foldline.prompts.base import BasePromptTemplate

__all__ = ["ImagePromptTemplate"]

RESERVED_NAMES = frozenset({"url", "path", "detail"})
NO_PATHS = (
    "an image is given by its 'url', never by a 'path': Loading images from 'path' has been removed as of 0.3.15 for "
    "security reasons. foldline opens no file named by a prompt: read it yourself and pass a data: address"
)


class ImagePromptTemplate(BasePromptTemplate[ImageURL]):
    """An image for a model with image input.

    ```python
    from foldline.prompts.image import ImagePromptTemplate

    image = ImagePromptTemplate(template={"url": "https://example.com/{name}.png", "detail": "low"})
    print(image.format(name="loom"))
    #> {'url': 'https://example.com/loom.png', 'detail': 'low'}
    ```
    """

    input_variables: list[str] = Field(default_factory=list)
    """The variables of the template, read from it."""
    template: dict[str, Any] = Field(default_factory=dict)
    """`url` and `detail`; both are templates."""
    template_format: PromptTemplateFormat = "f-string"
    """Their template format."""

    @model_validator(mode="before")
    @classmethod
    def _read_variables(cls, values: object) -> object:
        if not isinstance(values, dict):
            return values
        values = dict(values)
        kind = values.get("template_format") or "f-string"
        texts = [text for text in (values.get("template") or {}).values() if isinstance(text, str)]
        variables = {name for text in texts for name in compile_prompt(text, kind).variables}
        partials = values.get("partial_variables") or {}
        names = set(values.get("input_variables") or ()) | (variables - set(partials))
        if reserved := names & RESERVED_NAMES:
            raise UsageError(
                f"an image has 'url', 'path' and 'detail' of its own: rename the variables {sorted(reserved)}"
            )
        values["input_variables"] = sorted(names)
        return values

    @property
    def _prompt_type(self) -> str:
        return "image-prompt"

    def format_prompt(self, **kwargs: object) -> PromptValue:
        """Return the prompt value with the variables filled in."""
        return ImagePromptValue(image_url=self.format(**kwargs))

    def format(self, **kwargs: object) -> ImageURL:
        """Return the image with the variables filled in; `url` and `detail` may also be passed here."""
        return self._image(kwargs)

    def _image(self, values: Mapping[str, Any]) -> ImageURL:
        if self.partial_variables:
            values = self._merge_values(values)
        if "path" in self.template or values.get("path"):
            raise UsageError(NO_PATHS)
        filled = {
            key: compile_prompt(text, self.template_format).fill(values)
            if isinstance(text, str)
            else text
            for key, text in self.template.items()
        }
        url = values.get("url") or filled.get("url")
        detail = values.get("detail") or filled.get("detail")
        if not url:
            raise UsageError("an image needs a 'url'")
        if not isinstance(url, str):
            raise UsageError(f"the url of an image is text, not {type(url).__name__}")
        image: ImageURL = {"url": url}
        if detail:
            image["detail"] = cast('Literal["auto", "low", "high"]', detail)
        return image

    def pretty_repr(self, html: bool = False) -> str:  # noqa: FBT001, FBT002  LangChain's signature
        """Return the image's template."""
        return f"[image {self.template}]"
