"""The commands as Typer sees them: options and help only. What a command does is loaded when it runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from foldline.cli.calling import AsJson
from foldline.cli.calling import call_command as _call
from foldline.cli.serve_app import group as serve_group
from foldline.cli.trace_commands import studio, traces

__all__ = ["app"]

app: typer.Typer = typer.Typer(
    name="foldline",
    help="Talk to language models.",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["--help", "-h"]},
)


app.add_typer(serve_group, name="serve")


@app.callback()
def _foldline() -> None:
    """Talk to language models."""


Model = Annotated[
    str | None,
    typer.Option(
        "-m",
        "--model",
        envvar="FOLDLINE_MODEL",
        metavar="PROVIDER:MODEL",
        help="Which model: openai:gpt-5-nano, local:/path/model.gguf, py:module:name. Default: local:smollm2.",
    ),
]


Options = Annotated[
    list[str] | None,
    typer.Option(
        "-o", "--option", metavar="NAME=VALUE", help="A setting of the model: temperature=0."
    ),
]
NoLog = Annotated[bool, typer.Option("--no-log", help="Do not log this prompt.")]
IndexName = Annotated[str, typer.Option("--name", "-i", help="Which index.")]


@app.command()
def chat(
    prompt: Annotated[
        list[str] | None,
        typer.Argument(help="What to ask; piped input is appended. Without it: a session."),
    ] = None,
    *,
    model: Model = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the answer as JSON.")] = False,
    schema: Annotated[
        str | None,
        typer.Option(
            metavar="SCHEMA",
            help="Print JSON that fits: a file, JSON, or fields as in 'name, age int, bio: a sentence'.",
        ),
    ] = None,
    schema_list: Annotated[
        bool, typer.Option("--schema-list", help="The schema is of each item of a list.")
    ] = False,
    events: Annotated[
        bool, typer.Option("--events", help="Print the protocol events as JSON lines.")
    ] = False,
    no_stream: Annotated[
        bool, typer.Option("--no-stream", help="Print the answer when it is whole.")
    ] = False,
    extract: Annotated[
        bool, typer.Option("-x", "--extract", help="Print the first block of code only.")
    ] = False,
    extract_last: Annotated[
        bool, typer.Option("--extract-last", "--xl", help="Print the last block of code only.")
    ] = False,
    plain: Annotated[
        bool, typer.Option("--plain", help="Show Markdown as it was written.")
    ] = False,
    attach: Annotated[
        list[str] | None,
        typer.Option(
            "-a",
            "--attach",
            metavar="FILE|URL|-",
            help="Send a file along; - is stdin; repeatable.",
        ),
    ] = None,
    fragment: Annotated[
        list[str] | None,
        typer.Option(
            "-f", "--fragment", metavar="FILE|URL|NAME", help="Put a text before the prompt."
        ),
    ] = None,
    system: Annotated[
        str | None, typer.Option("-s", "--system", help="What the model is told first.")
    ] = None,
    template: Annotated[
        str | None, typer.Option("-T", "--template", metavar="NAME", help="Use a kept template.")
    ] = None,
    param: Annotated[
        list[str] | None,
        typer.Option("-p", "--param", metavar="NAME=VALUE", help="A parameter of the template."),
    ] = None,
    save: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Keep prompt and options as a template; ask nothing."),
    ] = None,
    tool: Annotated[
        list[str] | None,
        typer.Option("-t", "--tool", metavar="MODULE:TOOL", help="A tool; repeatable."),
    ] = None,
    mcp: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="The tools of the MCP servers that a JSON file names."),
    ] = None,
    ask: Annotated[bool, typer.Option("--ask", help="Ask before each call of a tool.")] = False,
    session: Annotated[
        str | None, typer.Option(metavar="NAME", help="Keep the conversation under a name.")
    ] = None,
    resume: Annotated[
        bool, typer.Option("-c", "--continue", help="Go on with the newest conversation.")
    ] = False,
    option: Options = None,
    trace: Annotated[
        bool, typer.Option("--trace", help="Log this prompt, whatever is chosen.")
    ] = False,
    no_log: NoLog = False,
) -> int:
    """Ask a model and stream its answer. Without a prompt: an interactive session.

    The model in the box is small (135M parameters): good for trying things, not a clever one.
    """
    return _call(
        "chat:chat",
        " ".join(prompt or []),
        model=model,
        system=system,
        schema=schema,
        schema_list=schema_list,
        tools=tool or [],
        mcp=mcp or [],
        ask=ask,
        options=option or [],
        fragments=fragment or [],
        template=template,
        parameters=param or [],
        save=save,
        attach=attach or [],
        session=session,
        resume=resume,
        trace=trace,
        no_log=no_log,
        as_json=as_json,
        events=events,
        no_stream=no_stream,
        is_styled=not plain,
        extract=extract,
        extract_last=extract_last,
    )


@app.command()
def index(
    path: Annotated[
        list[str] | None,
        typer.Argument(help="Files, folders or addresses. Without one: the indexes there are."),
    ] = None,
    *,
    name: IndexName = "docs",
    model: Annotated[
        str | None,
        typer.Option(
            "-m", "--model", help="The embeddings: openai:text-embedding-3-small. Default: local."
        ),
    ] = None,
    glob: Annotated[
        list[str] | None, typer.Option(metavar="PATTERN", help="Only these files: '**/*.md'.")
    ] = None,
    exclude: Annotated[
        list[str] | None, typer.Option(metavar="PATTERN", help="Not these files.")
    ] = None,
    as_json: AsJson = False,
) -> int:
    """Bring files, folders and web pages into an index, by meaning; again, only what has changed."""
    return _call(
        "rag:index",
        path or [],
        name=name,
        model=model,
        glob=glob or [],
        exclude=exclude or [],
        as_json=as_json,
    )


@app.command()
def ask(
    question: Annotated[list[str], typer.Argument(help="What to ask of the index.")],
    *,
    model: Model = None,
    name: IndexName = "docs",
    count: Annotated[int, typer.Option("-k", min=1, max=50, help="How many pieces are read.")] = 4,
    option: Options = None,
    sources: Annotated[
        bool, typer.Option("--sources", help="Show what was found; ask no model.")
    ] = False,
    no_log: NoLog = False,
    as_json: AsJson = False,
) -> int:
    """Answer a question from an index, with its sources."""
    return _call(
        "commands:ask_logged",
        " ".join(question),
        model=model,
        name=name,
        count=count,
        options=option or [],
        only_sources=sources,
        as_json=as_json,
        no_log=no_log,
    )


@app.command()
def similar(
    text: Annotated[list[str], typer.Argument(help="What to look for.")],
    *,
    name: IndexName = "docs",
    count: Annotated[int, typer.Option("-k", min=1, max=1000, help="How many pieces.")] = 5,
    as_json: AsJson = False,
) -> int:
    """Show the pieces of an index that are nearest to a text, by meaning."""
    return _call("rag:similar", " ".join(text), name=name, count=count, as_json=as_json)


@app.command()
def embed(
    text: Annotated[list[str] | None, typer.Argument(help="What to embed; or piped in.")] = None,
    *,
    model: Annotated[
        str | None,
        typer.Option("-m", "--model", help="openai:text-embedding-3-small. Default: local."),
    ] = None,
) -> int:
    """Print the vector of a text as JSON."""
    return _call("commands:embed_piped", " ".join(text or []), model=model)


@app.command()
def keys(
    action: Annotated[str, typer.Argument(help="list, set, delete or path.")] = "list",
    name: Annotated[str | None, typer.Argument(help="A provider, or a variable.")] = None,
    *,
    in_keyring: Annotated[
        bool, typer.Option("--keyring", help="Keep it in the system's keyring.")
    ] = False,
    as_json: AsJson = False,
) -> int:
    """Keep API keys for the command line, in a file that only you can read or in the keyring."""
    return _call("keys:keys", action, name, in_keyring=in_keyring, as_json=as_json)


@app.command()
def default(
    model: Annotated[str | None, typer.Argument(help="The model that is used without -m.")] = None,
    *,
    clear: Annotated[bool, typer.Option("--clear", help="Back to the model in the box.")] = False,
) -> int:
    """Show or set the model that is used without -m."""
    return _call("choices:default", model, clear=clear)


@app.command()
def aliases(
    name: Annotated[str | None, typer.Argument(help="The alias.")] = None,
    model: Annotated[str | None, typer.Argument(help="The model that it stands for.")] = None,
    *,
    delete: Annotated[bool, typer.Option("--delete", help="Delete it.")] = False,
    as_json: AsJson = False,
) -> int:
    """List, set or delete short names of models."""
    return _call("choices:aliases", name, model, delete=delete, as_json=as_json)


@app.command()
def templates(
    name: Annotated[str | None, typer.Argument(help="Show this one.")] = None,
    *,
    delete: Annotated[bool, typer.Option("--delete", help="Delete it.")] = False,
    as_json: AsJson = False,
) -> int:
    """List, show or delete kept prompts; `foldline chat ... --save NAME` makes one."""
    return _call("choices:templates", name, delete=delete, as_json=as_json)


@app.command()
def fragments(
    name: Annotated[str | None, typer.Argument(help="The name.")] = None,
    place: Annotated[str | None, typer.Argument(help="The file or address.")] = None,
    *,
    delete: Annotated[bool, typer.Option("--delete", help="Delete it.")] = False,
    as_json: AsJson = False,
) -> int:
    """List, set or delete names of texts that `foldline chat -f NAME` puts before a prompt."""
    return _call("choices:fragments", name, place, delete=delete, as_json=as_json)


@app.command()
def logs(
    what: Annotated[str | None, typer.Argument(help="An id; or on, off, status, path.")] = None,
    *,
    limit: Annotated[int, typer.Option("-n", "--limit", min=1, help="How many.")] = 3,
    search: Annotated[str | None, typer.Option("-q", "--search", help="With these words.")] = None,
    model: Annotated[str | None, typer.Option("-m", "--model", help="Of this model.")] = None,
    session: Annotated[str | None, typer.Option(help="Of this session.")] = None,
    only_answer: Annotated[
        bool, typer.Option("-r", "--response", help="Print the newest answer only.")
    ] = False,
    extract: Annotated[
        bool, typer.Option("-x", "--extract", help="Print the newest answer's code only.")
    ] = False,
    as_json: AsJson = False,
) -> int:
    """Show the prompts of the command line and their answers, newest last; or switch logging on or off."""
    return _call(
        "logs:logs",
        what,
        limit=limit,
        search=search,
        model=model,
        session=session,
        only_answer=only_answer,
        extract=extract,
        as_json=as_json,
    )


@app.command()
def sessions(
    name: Annotated[str | None, typer.Argument(help="Show this conversation.")] = None,
    *,
    delete: Annotated[bool, typer.Option("--delete", help="Delete it instead.")] = False,
    as_json: AsJson = False,
) -> int:
    """List the kept conversations, show one, or delete one."""
    return _call("sessions:sessions", name, delete=delete, as_json=as_json)


@app.command()
def models(
    provider: Annotated[
        str | None, typer.Argument(help="Show the models known of this provider.")
    ] = None,
    *,
    as_json: AsJson = False,
) -> int:
    """List the providers: what is installed, which keys are set, what their models can do."""
    return _call("models:models", provider, as_json=as_json)


@app.command()
def doctor(*, as_json: AsJson = False) -> int:
    """Check Python, extras, keys, servers and folders, and say what to do about each finding.

    Only servers on this machine and addresses that you configured are asked.
    """
    return _call("doctor:doctor", as_json=as_json)


app.command()(traces)
app.command()(studio)


@app.command()
def replay(
    file: Annotated[Path, typer.Argument(help="Events (chat --events), a recording, or SSE.")],
    *,
    speed: Annotated[
        float, typer.Option(min=0, help="2 is twice as fast; 0 does not wait at all.")
    ] = 1.0,
    events: Annotated[bool, typer.Option("--events", help="Print events instead of text.")] = False,
    provider: Annotated[
        str | None, typer.Option(help="Whose wire it is, where it cannot be told.")
    ] = None,
) -> int:
    """Play a recorded stream back at its speed."""
    return _call("replay:replay", file, speed=speed, events=events, provider=provider)


@app.command()
def bench(
    prompt: Annotated[str, typer.Argument(help="What to ask.")] = "Write a short poem about rain.",
    *,
    model: Model = None,
    runs: Annotated[int, typer.Option("-n", "--runs", min=1, help="How often.")] = 3,
    suite: Annotated[
        bool, typer.Option("--suite", help="Run the benchmarks of a clone of foldline instead.")
    ] = False,
    as_json: AsJson = False,
) -> int:
    """Time a model: the first token, tokens per second."""
    return _call("bench:bench", prompt, model=model, runs=runs, suite=suite, as_json=as_json)


@app.command()
def migrate(
    path: Annotated[Path, typer.Argument(help="A program, a notebook, or a folder of them.")],
    *,
    check: Annotated[
        bool, typer.Option("--check", help="Change nothing; fail if a name has no home.")
    ] = False,
    diff: Annotated[bool, typer.Option("--diff", help="Change nothing; show what would.")] = False,
) -> int:
    """Rename the imports of LangChain's packages, and list what has no home here."""
    return _call("migrate:migrate", path, check=check, diff=diff)


batch = typer.Typer(
    help="Ask for every row of a file, over hours and processes.",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["--help", "-h"]},
)
app.add_typer(batch, name="batch")
Out = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Write answers there: .jsonl, .csv or .parquet.")
]
MaxCost = Annotated[
    float | None, typer.Option("--max-cost", min=0, help="Stop before so many dollars are spent.")
]
Store = Annotated[Path, typer.Argument(help="The job's store: PROMPTS.jobs.db.")]


@batch.command("run")
def batch_run(
    file: Annotated[Path, typer.Argument(help="Prompts: .jsonl, .csv or .parquet.")],
    *,
    model: Model = None,
    template: Annotated[
        str | None, typer.Option(help="The prompt, with the columns of a row: 'About {topic}'.")
    ] = None,
    system: Annotated[
        str | None, typer.Option("-s", "--system", help="What the model is told first.")
    ] = None,
    schema: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A JSON schema that answers must fit.")
    ] = None,
    store: Annotated[
        Path | None, typer.Option(help="Where the job is kept. Default: beside the prompts.")
    ] = None,
    out: Out = None,
    key: Annotated[
        str | None, typer.Option(help="The column that names a row. Default: its number.")
    ] = None,
    mode: Annotated[str, typer.Option(help="auto, live or provider (its batches).")] = "auto",
    max_cost: MaxCost = None,
    concurrency: Annotated[int, typer.Option(min=1, help="Live calls at once.")] = 16,
    option: Annotated[
        list[str] | None,
        typer.Option(
            "-o", "--option", metavar="NAME=VALUE", help="A setting of the model: temperature=0."
        ),
    ] = None,
    as_json: AsJson = False,
) -> int:
    """Ask a model for every row of a file. What was asked before is not asked again."""
    return _call(
        "batch:run",
        file,
        model=model,
        template=template,
        system=system,
        schema=schema,
        store=store,
        out=out,
        key=key,
        mode=mode,
        max_cost=max_cost,
        concurrency=concurrency,
        options=option or [],
        as_json=as_json,
    )


@batch.command("resume")
def batch_resume(
    store: Store,
    *,
    out: Out = None,
    max_cost: MaxCost = None,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="Ask for failed rows again; undo a cancel.")
    ] = False,
    as_json: AsJson = False,
) -> int:
    """Go on with a job that was stopped, was killed or ran out of its budget."""
    return _call(
        "batch:resume",
        store,
        out=out,
        max_cost=max_cost,
        retry_failed=retry_failed,
        as_json=as_json,
    )


@batch.command("status")
def batch_status(store: Store, *, as_json: AsJson = False) -> int:
    """Show where a job stands."""
    return _call("batch:status", store, as_json=as_json)


@batch.command("cancel")
def batch_cancel(store: Store) -> int:
    """Stop a job, wherever it runs, and its batches at the provider."""
    return _call("batch:cancel", store)
