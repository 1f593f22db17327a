"""Write into docs/migrating-from-langchain.md which tests of langchain-core's own fail on foldline, and why.

    python scripts/peer_table.py RESULTS.json      the results of a run of those tests (its `--json`)

A failing test that no pattern below explains is listed as such: write its reason, or mend it.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

PAGE = Path(__file__).parent.parent / "docs" / "migrating-from-langchain.md"
BEGIN, END = "<!-- peer tests -->", "<!-- end of peer tests -->"
REASONS = {
    r"test_chat_model_stream\.py|PerBlockAccumulation": "an event for a block that never started is a protocol error",
    r"rate_limit": "a limiter waits exactly as long as its limit requires; LangChain's polls",
    r"root_dispatch": "an event outside any run is ignored, without an error",
    r"chat_model_streamer|v1_parity.*text_only|output_version": "finished v1 content has no `index`",
    r"AsyncStreamAclose": "a stream that was closed raises `StreamClosedError`, not `CancelledError`",
    r"v1_parity.*empty_response": "an empty answer is an answer",
    r"test_trace_": "handlers get the blocks as the program wrote them",
    r"fallback_to_ainvoke": "a stream gives chunks, also where a model answers whole",
    r"fake_chat_model_stream": "pieces without content are joined into one",
    r"compat_responses_v03": "a refusal is a block of its own",
    r"block_translators": "citations keep their type, files their `file_id`",
    r"test_ai.*content_blocks": "a copy is given, and every block of a stream keeps its place",
    r"test_serializable|ser_non_serializable": (
        "a mark of what cannot be written names the class, without the object's `repr`: it may hold secrets"
    ),
    r"max_tokens_error|unknown_tool": "arguments that do not fit raise `OutputParserException`",
    r"test_bad_parent_ids": "all events are reported where LangChain's handler fails",
    r"test_runnable_each|passthrough_nested|test_runnable_gen_async": "works here",
    r"events_v2|test_prompt_with_llm": "events have the same content; order or the input at the start differs",
    r"test_history": "the schema and the inside of `RunnableWithMessageHistory` differ; its errors are the same",
    r"retrying": "a batch that cannot succeed stops at its first final failure",
    r"default_method_implementations|with_config": "a step gets the whole config, not only the keys that were given",
    r"addable_dict|bool_additional_kwargs": "values that cannot be added are replaced by the last",
    r"inferred_args_schema|v1_args_schema|injected_arg": "Pydantic 2 only; another exception of the same family",
    r"args_schema_dict|convert_from_runnable|tool_from_runnable|annotations_preserved": "titles of schemas differ",
    r"nested_strict": "`strict=True` refuses an object with free keys, which it cannot describe",
    r"function_calling|assign_schema|mustache_prompt": "titles and types of inferred schemas differ",
    r"message_chunk_to_message": "a call whose arguments were cut off is invalid, and is not run",
    r"known_block_types|merge_content|handle_event|base_tracer|identifier_variable": "a detail of an inner helper",
    r"from_file_with_partial": "the file is not read through `Path.open`, which the test replaces",
    r"inmemory": "the count of vectors is checked; they are kept as 32-bit numbers",
    r"deep_astream_assign": "a lookup on disk when a trace is shown, which the test forbids",
}
"""Pattern of `file::test` -> why it fails here."""


def main(results: str) -> None:
    """Write the table between its two marks."""
    data = json.loads(Path(results).read_text(encoding="utf-8"))
    failed = [f"{one['file']}::{one['test']}" for one in data["failures"] if one["tier"] == "core"]
    groups: dict[str, list[str]] = {}
    for test in failed:
        reason = next(
            (why for pattern, why in REASONS.items() if re.search(pattern, test)),
            "not explained yet",
        )
        groups.setdefault(reason, []).append(test)
    total = data["total"]
    uncounted = len(failed) - (total["denominator"] - total["passed"])
    lines = [
        BEGIN,
        f"{total['passed']} of {total['denominator']} pass (langchain-core {data_version(data)}). The others"
        + (f", and {uncounted} that LangChain's own run leaves out:" if uncounted else ":"),
        "",
        "| tests | why they fail here | which |",
        "|---|---|---|",
    ]
    for reason, tests in sorted(groups.items(), key=lambda item: -len(item[1])):
        files = sorted({test.partition("::")[0].removesuffix(".py") for test in tests})
        names = ", ".join(f"`{name}`" for name in files)
        lines.append(f"| {len(tests)} | {reason} | {names} |")
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    after = rest.partition(END)[2]
    PAGE.write_text(before + "\n".join([*lines, END]) + after, encoding="utf-8")


def data_version(data: dict[str, object]) -> str:
    """Return the version of the tests that were run."""
    found = re.search(r"\d+\.\d+\.\d+", str(data.get("peer_tests")))
    return found[0] if found else "1.6.1"


if __name__ == "__main__":
    main(sys.argv[1])
