"""The table of docs/serve.md: clients × features. A cell names the test that shows it, `–` where the wire has no such
thing, or a reason. `python -m tests.serve.table` writes it into the page."""

from __future__ import annotations

from pathlib import Path

PAGE = Path(__file__).parent.parent.parent / "docs" / "serve.md"
BEGIN, END = "<!-- clients: begin -->", "<!-- clients: end -->"
FEATURES = (
    "text", "parallel tools", "reasoning", "picture in", "usage", "error mid-stream", "429", "stop", "resume",
)  # fmt: skip
NONE = "–"
CHAT, RESPONSES, ANTHROPIC = "test_chat_completions", "test_responses", "test_anthropic_messages"
SDK, VERCEL, AGUI = "test_ai_sdk", "test_vercel", "test_agui"
RUNS, GRAPH, SERVE = "test_runs", "test_langgraph", "test_langserve"
ROWS: dict[str, tuple[str, ...]] = {
    "`openai` chat completions": (
        f"{CHAT}:test_text_comes_in_chunks_with_usage",
        f"{CHAT}:test_parallel_tools_go_out_and_come_back",
        f"{CHAT}:test_reasoning_is_beside_the_text",
        f"{CHAT}:test_a_picture_and_a_file_reach_the_model",
        f"{CHAT}:test_text_comes_whole",
        f"{CHAT}:test_a_broken_stream_raises_after_what_was_said",
        f"{CHAT}:test_errors_before_the_first_word_are_http_errors",
        f"{CHAT}:test_leaving_ends_the_run_and_closes_the_model",
        NONE,
    ),
    "`openai` Responses": (
        f"{RESPONSES}:test_text_comes_whole_with_usage",
        f"{RESPONSES}:test_parallel_tools_go_out_and_come_back",
        f"{RESPONSES}:test_the_stream_helper_folds_reasoning_and_text",
        f"{RESPONSES}:test_a_picture_reaches_the_model",
        f"{RESPONSES}:test_text_comes_whole_with_usage",
        f"{RESPONSES}:test_a_broken_stream_raises",
        f"{RESPONSES}:test_errors_before_the_first_word_are_http_errors",
        f"{RESPONSES}:test_leaving_ends_the_run",
        f"{RESPONSES}:test_a_response_is_watched_again_from_a_number_on",
    ),
    "`anthropic`": (
        f"{ANTHROPIC}:test_text_comes_whole_with_usage",
        f"{ANTHROPIC}:test_parallel_tools_go_out_and_come_back",
        f"{ANTHROPIC}:test_the_stream_helper_folds_reasoning_and_text",
        f"{ANTHROPIC}:test_a_picture_reaches_the_model",
        f"{ANTHROPIC}:test_text_comes_whole_with_usage",
        f"{ANTHROPIC}:test_a_broken_stream_raises",
        f"{ANTHROPIC}:test_errors_before_the_first_word_are_http_errors",
        f"{ANTHROPIC}:test_leaving_ends_the_run",
        NONE,
    ),
    "`@ai-sdk/openai` chat": (
        f"{SDK}:test_text_and_usage",
        f"{SDK}:test_parallel_tools_run_in_the_client",
        "this client reads none",
        f"{SDK}:test_a_picture_reaches_the_model",
        f"{SDK}:test_text_and_usage",
        f"{SDK}:test_errors",
        f"{SDK}:test_errors",
        f"{SDK}:test_aborting_ends_the_run",
        NONE,
    ),
    "`@ai-sdk/openai` Responses, `@ai-sdk/anthropic`": (
        f"{SDK}:test_text_and_usage",
        f"{SDK}:test_parallel_tools_run_in_the_client",
        f"{SDK}:test_reasoning",
        f"{SDK}:test_a_picture_reaches_the_model",
        f"{SDK}:test_text_and_usage",
        f"{SDK}:test_errors",
        f"{SDK}:test_errors",
        f"{SDK}:test_aborting_ends_the_run",
        NONE,
    ),
    "`ai` chat (Vercel UI stream)": (
        f"{VERCEL}:test_text_comes_as_a_message_with_usage",
        f"{VERCEL}:test_an_agents_parallel_tools_are_parts_with_their_results",
        f"{VERCEL}:test_reasoning_is_a_part_of_its_own",
        f"{VERCEL}:test_a_picture_reaches_the_model",
        f"{VERCEL}:test_text_comes_as_a_message_with_usage",
        f"{VERCEL}:test_a_broken_stream_is_an_error",
        f"{VERCEL}:test_a_rate_limit_is_an_error",
        f"{VERCEL}:test_stop_ends_the_run_with_an_abort",
        f"{VERCEL}:test_who_aborts_may_come_back_and_sees_everything",
    ),
    "`@ag-ui/client`": (
        f"{AGUI}:test_text_comes_with_usage",
        f"{AGUI}:test_an_agents_parallel_tools_and_their_results",
        f"{AGUI}:test_reasoning_comes_before_the_text",
        f"{AGUI}:test_a_picture_reaches_the_model",
        f"{AGUI}:test_text_comes_with_usage",
        f"{AGUI}:test_a_broken_stream_is_a_run_error",
        f"{AGUI}:test_a_rate_limit_is_an_error_of_http",
        f"{AGUI}:test_a_stopped_run_ends_as_cancelled",
        f"{AGUI}:test_an_agent_asks_and_is_answered_by_resume",
    ),
    "`langgraph-sdk` threads": (
        f"{GRAPH}:test_a_thread_streams_messages_tools_and_output",
        f"{GRAPH}:test_a_thread_streams_messages_tools_and_output",
        f"{GRAPH}:test_reasoning_a_picture_and_usage_in_a_thread",
        f"{GRAPH}:test_reasoning_a_picture_and_usage_in_a_thread",
        f"{GRAPH}:test_reasoning_a_picture_and_usage_in_a_thread",
        f"{GRAPH}:test_a_broken_run_raises",
        f"{GRAPH}:test_a_limited_run_of_a_thread_raises",
        f"{GRAPH}:test_a_threads_run_is_stopped_by_a_command",
        f"{GRAPH}:test_a_thread_is_followed_from_a_number_on",
    ),
    "`langgraph-sdk` runs": (
        f"{GRAPH}:test_a_thread_is_made_run_on_and_looked_at",
        f"{GRAPH}:test_updates_and_messages_come_as_they_happen",
        f"{GRAPH}:test_reasoning_and_a_picture_in_runs",
        f"{GRAPH}:test_reasoning_and_a_picture_in_runs",
        f"{GRAPH}:test_updates_and_messages_come_as_they_happen",
        f"{GRAPH}:test_errors_reach_the_client",
        f"{GRAPH}:test_errors_reach_the_client",
        f"{GRAPH}:test_a_run_is_cancelled_and_joined",
        f"{GRAPH}:test_an_agent_asks_and_is_answered",
    ),
    "LangServe's `RemoteRunnable`": (
        *([f"{SERVE}:test_S51_langserves_own_client"] * 8),
        NONE,
    ),
    "raw SSE on `/runs`, our `RemoteRunnable`": (
        f"{RUNS}:test_a_remote_model_is_a_runnable",
        f"{RUNS}:test_a_remote_agent_with_its_tools",
        f"{RUNS}:test_reasoning_and_a_picture_go_over_the_wire",
        f"{RUNS}:test_reasoning_and_a_picture_go_over_the_wire",
        f"{RUNS}:test_a_run_is_started_followed_and_read_again",
        f"{RUNS}:test_errors_of_a_remote_are_errors_here",
        f"{RUNS}:test_errors_of_a_remote_are_errors_here",
        f"{RUNS}:test_stop_ends_a_run_within_a_second",
        f"{RUNS}:test_a_broken_connection_is_picked_up_where_it_was",
    ),
    "simonw's `llm`": (
        f"{SERVE}:test_simonws_llm_with_a_custom_endpoint",
        *(["as `openai`"] * 7),
        NONE,
    ),
    "MCP client": (
        "test_mcp:test_apps_are_tools",
        NONE,
        NONE,
        NONE,
        NONE,
        "test_mcp:test_the_session_of_the_published_client",
        "test_mcp:test_a_rate_limit_is_an_error_of_the_tool",
        "test_mcp:test_leaving_ends_the_run",
        NONE,
    ),
}


def table() -> str:
    """Return the table as Markdown."""
    lines = [f"| client | {' | '.join(FEATURES)} |", "|---" * (len(FEATURES) + 1) + "|"]
    for client, cells in ROWS.items():
        marks = ["✓" if ":test_" in cell else cell for cell in cells]
        lines.append(f"| {client} | {' | '.join(marks)} |")
    return "\n".join(lines)


def page_with_table() -> str:
    """Return the page with the table of now."""
    text = PAGE.read_text(encoding="utf-8")
    head, _, remaining = text.partition(BEGIN)
    _, _, tail = remaining.partition(END)
    return f"{head}{BEGIN}\n{table()}\n{END}{tail}"


if __name__ == "__main__":
    PAGE.write_text(page_with_table(), encoding="utf-8")
