"""The security contract, held in the source: what appears nowhere, and what happens only in named places.

`NOWHERE` and `SINKS` are complete in both directions: a use without a line fails, and so does a line without a use.
A line names a function (`path::Class.method`), a file, or a folder (`cli/`), and says why it may.
"""

from __future__ import annotations

import pytest

from tests.security import source_scan as scan

NOWHERE = {
    scan.evaluates: {
        "_lazy.py::lazy_exports": "records the import statements of a block of ours; evaluates nothing",
    },
    scan.uses_a_shell: {},
    scan.loads_arrays_with_pickle: {},
    scan.calls_the_seam_otherwise: {},
    scan.uses_unsafe_module: {
        "output_parsers/yaml.py::YamlOutputParser.parse": "yaml.safe_load: plain values only",
        "compat/__main__.py": "runpy: the program that the user names on the command line",
        "messages/_buffer_xml.py": "xml.sax.saxutils: escapes text that is written; parses nothing",
        "output_parsers/_xml_stream.py": "expat, which refuses document types: nothing is expanded or fetched",
        "prompts/_jinja_limits.py": "jinja2's types, for checkers alone",
        "prompts/_jinja.py::_jinja2": "the `jinja` extra, asked for by name, in a sandbox; `load` refuses it",
        "providers/local/runtime.py": "ctypes: silences the C library's log; no address comes from data",
        "batches/_executors.py": "pickle, between a program and the workers of its own executor; no file, no wire",
        "_cli/studio.py": "webbrowser: opens the page for the user who typed the command",
        "serve/_draining.py": "multiprocessing: the pipe to its parent, which carries bytes; nothing is unpickled",
        "serve/_supervisor.py": "multiprocessing: starts the server's own workers, with settings of the operator",
    },
    scan.starts_a_program: {
        "providers/local/_download.py": "pip or uv with pinned hashes, as a list of arguments, when a user asks",
        "_cli/bench.py": "`foldline bench` runs the script of this repository",
        "_cli/install.py": "pip or uv, for an extra of ours, after the user at the terminal said yes",
        "agents/middleware/file_search.py": "rg, as a list of arguments; the expression stands behind `--`",
        "agents/middleware/execution.py": "the shell of an agent: its program asked for it with ShellToolMiddleware",
        "agents/middleware/_shell_session.py": "the same shell: its pipes are read, its group is ended",
    },
    scan.imports_by_name: {
        "text_splitters/sentences.py::_library": "nltk or spacy, named in our source",
        "text_splitters/html_semantic.py::_library": "bs4 or nltk, named in our source",
        "compat/convert.py::Direction.source_class": "modules and classes of the tables KINDS and VALUES",
        "compat/convert.py::Direction.target_class": "modules and classes of the tables KINDS and VALUES",
        "embedding_models.py::init_embeddings": "a module of the table CLASSES",
        "_lazy.py::_load_when_used.load": "what our own packages write down: the modules that hold their names",
        "_lazy.py::_module_exists": "whether a package of ours has a module of that name",
        "language_models/call/__init__.py": "old paths of our own modules",
        "language_models/policies/__init__.py": "old paths of our own modules",
        "language_models/streams/__init__.py": "old paths of our own modules",
        "load/registry.py::resolve": "the one place that revives: a row of the closed registry",
        "providers/__init__.py::find_provider": "a row of our registry, or an installed entry point",
        "prompts/_jinja.py::_jinja2": "parts of jinja2",
        "tools/mcp/_package.py::import_extra": "parts of mcp, named in our source",
        "utils/utils.py::guard_import": "LangChain's helper for code that imports an extra",
        "_cli/": "the user's own command line names modules and commands",
        "providers/_endpoint.py::Endpoint._batch_api": "a class variable of a provider of ours",
        "serve/_load_apps.py::load_object": "what the operator's command line or configuration names to be served",
        "compat/langchain.py::_value": "the stand-ins of LangChain's modules: homes that the map names",
        "compat/names.py::_import": "a module of ours: the map's homes, or LangChain's path with our name in front",
    },
}
"""Rule -> the few places where it is let through, with the reason. None of them is reached by data."""

SINKS = {
    scan.reaches_the_network: {
        "transports/": "the transports: every request of foldline's leaves here",
        "language_models/_call/policies/file_resolver.py::_look_up": "names are looked up once and pinned (F-P04)",
        "language_models/_call/policies/file_resolver.py": "the same: `socket` for the look-up",
        "providers/local/runtime.py": "http.client: asks the model server in this process how it is, on loopback",
        "_cli/doctor.py": "`foldline doctor` tries whether the configured endpoint answers",
        "_cli/serve.py": "`foldline serve` listens, on loopback unless told otherwise",
        "_cli/studio.py": "`foldline studio` listens, on loopback",
        "serve/_systemd.py": "the local socket of systemd",
        "serve/_tls.py": "certificates of the server, which the operator named",
        "serve/_log/run_log.py": "the name of this host, to tell whose runs are left behind",
        "serve/_draining.py": "the sockets at which the server listens; it connects to nobody",
        "serve/_supervisor.py": "passes the listening socket to workers; a pair of sockets wakes it at signals",
        "_io/serving.py": "accepts the last connections of a listening socket; connects to nobody",
        "studio/_guard.py": "parses addresses of callers; connects to none",
    },
    scan.sends_a_request: {
        "providers/_http.py": "every chat model over HTTP",
        "providers/_counting.py": "counting on the server, asked for by name",
        "providers/_embedding.py": "embeddings",
        "providers/_text.py": "every text model over HTTP",
        "providers/_batch_client.py::BatchClient._open": "batches of a provider, at the model's own endpoint",
        "serve/client.py::RemoteRunnable._open": "a server that the program names",
        "providers/google/_credentials.py": "google-auth's requests for tokens",
        "providers/bedrock/_endpoint.py::AwsEndpoint._fetch": "metadata services of AWS, where a program names them",
        "language_models/_call/policies/file_resolver.py::FileResolver.fetch_page": "fetches a URL: off by default",
        "testing/replay.py": "records what another transport answers",
    },
    scan.opens_a_file: {
        "agents/middleware/file_search.py::FilesystemFileSearchMiddleware._by_reading": "files below root_path",
        "text_splitters/html.py::HTMLHeaderTextSplitter.split_text_from_file": "the file that the program names",
        "utils/_class_doc.py::_docs_of_file": "the source of a class, for `help()`",
        "agents/_agent_loop.py::Loop.open": "begins a run; no file",
        "graph/_graph_loop.py::GraphLoop.open": "begins a run; no file",
        "workflows/_run_loop.py::RunLoop.events": "begins a run; no file",
        "batches/job.py::BatchJob.__init__": "a path given in code",
        "batches/rows.py": "rows in and out: paths given in code or on the command line",
        "batches/_store/job_database.py::JobDatabase._lock_path": "the lock beside the store, a path of code",
        "serve/app.py::create_app.lifespan": "begins the server's log; no file",
        "serve/_wire_server.py::WireCall.bytes": "no file: the body of a request",
        "serve/_load_apps.py::read_config": "the configuration that the operator named",
        "serve/_log/upkeep.py::back_up": "the copy of the log, which the operator named",
        "serve/_metrics.py::_process_facts": "a file of the kernel: the memory of this process",
        "serve/_metrics_files.py": "the numbers of the workers, in a private folder of their parent",
        "serve/_setting_rows.py::_of_path": "a secret, in the file that the operator named",
        "serve/_wire_server.py::Server.endpoint.call": "no file: begins a call",
        "language_models/_call/policies/safe_files.py": "the one open of a path in data: off by default, no links",
        "_storage/sqlite.py::create_privately": "a path given in code, created for its owner alone",
        "_storage/workers.py": "two files of the kernel: the id of the boot, and the start of a process by its number",
        "prompts/_files.py": "prompt files, under a resolved root",
        "compat/names.py::_data": "the map, a file of this package",
        "_cli/migrate.py": "programs that the user named on the command line",
        "prompts/base.py::BasePromptTemplate.save": "through prompts/_files.py",
        "prompts/chat.py::ChatPromptTemplate.save": "through prompts/_files.py",
        "utils/_private_files.py": "opens for those named here: only its owner may read what it makes",
        "stores/file.py": "LocalFileStore: keys confined to its folder, no links",
        "callbacks/file.py::FileCallbackHandler.__init__": "a path given in code",
        "documents/base.py": "Blob: a path given in code; a Blob cannot be loaded from data",
        "language_models/text/base_llm.py::BaseLLM.save": "a path given in code",
        "runnables/graph.py::Graph.draw_svg": "a path given in code",
        "chains/saving.py::save_chain": "a path given in code, through prompts/_files.py",
        "tracers/_revision.py::_read_head": "HEAD and branches below the .git folder of the working directory",
        "prices/table.py::price_table": "the table that foldline comes with",
        "prices/table.py::read_table": "a path given in code, or by the variable FOLDLINE_PRICES",
        "rate_limiters/redis.py::_script": "the script that foldline comes with",
        "testing/replay.py": "recordings: a path given in code",
        "transports/base.py::_read_pem": "the CA bundle given in code",
        "vectorstores/in_memory.py": "dump and load: a path given in code; JSON and arrays, no pickle",
        "providers/bedrock/_credentials.py": "AWS's own files, where a program names them; paths of the environment",
        "providers/google/_credentials.py::_read_key_file": "a path given in code",
        "providers/local/": "the model cache: fixed names under one folder",
        "_cli/": "the user's own command line names files",
        "runnables/_stream_attempts.py::FallbackStream._attempt_batches": "no file: opens a stream",
    },
    scan.formats: {
        "_cli/choices.py": "string.Template puts whole values in the places of names, and reaches into nothing",
        "utils/formatting.py": "the one formatter: plain names only, checked when formatting",
        "utils/mustache.py::render": "the one mustache renderer: dicts and lists only",
        "utils/_schema_rules.py::_size.rule": "words of our own table",
        "rate_limiters/_headers.py::_cap": "names of headers, of our own table",
        "prompts/": "`format` of a prompt, which ends in utils/",
        "serve/_log_lines.py::line_of": "a formatter of `logging`: the line of a sentence of ours",
        "chains/documents.py::StuffDocumentsChain.prompt_length": "`format` of a prompt",
        "example_selectors/length_based.py::LengthBasedExampleSelector._length": "`format` of a prompt",
        "tools/retriever.py::_text": "`format` of a prompt",
    },
    scan.runs_built_sql: {
        "utils/sql_database.py::SQLDatabase._execute": "one statement, read-only unless told otherwise",
        "_storage/postgres.py::PostgresServer.__init__": "the schema its subclass wrote out",
        "_storage/postgres.py::PostgresServer.run_outside": "statements that stores wrote out, such as VACUUM",
        "_storage/postgres_database.py": "passes on what stores wrote out, with the marks of psycopg; values are bound",
        "_storage/sqlite_database.py": "schemas of ours; passes on what stores wrote out; values are bound",
        "_storage/workers.py": "statements written out where they are used; values are bound",
        "_items/table.py::TableStore._write.work": "one of two statements written out in this file; values are bound",
        "_storage/forget.py": "tables and columns of ours; values are bound",
        "serve/_log/run_log.py::ServerLog.runs": "conditions of ours; values are bound",
        "indexing/_table.py": "conditions of ours, as many marks as values; values are bound",
        "stores/_table.py": "conditions of ours, as many marks as values; values are bound",
        "batches/_store/item_table.py": "columns and conditions of ours; values are bound",
        "batches/_store/input_table.py": "as many marks as values; values are bound",
        "batches/_store/job_table.py": "columns and conditions of ours, as many marks as values; values are bound",
        "studio/_datasets.py": "statements written out in this file; values are bound",
        "tracers/_statistics.py": "columns of ours, as many marks as values; values are bound",
        "tracers/_index.py": "as many marks as values; words of a search are quoted and bound",
        "tracers/_database.py": "passes on what the store and the writer wrote out; values are bound",
        "tracers/_schema.py": "upgrades of ours: names written out in this file; PostgreSQL quotes the schema",
        "tracers/_text_index.py::Fts5Index.exists": "a query written out there; nothing is put into it",
        "_storage/schema.py::run_script": "the statements of a schema, each written out in a store",
        "tracers/_summary.py": "columns and conditions of ours; values are bound",
        "tracers/store.py": "one SELECT and a WHERE, both written out in this file; values are bound",
        "vectorstores/postgres.py": "operators and numbers of ours; keys and values of filters are bound",
    },
    scan.revives: {
        "load/_compact.py": "one of four message classes, named in a table of the file; data has its key, no path",
        "runnables/_legacy.py::rebind_overrides": "updates the subclasses of a patched class; builds none",
        "prompts/loading.py": "LangChain's prompt files name a `_type` of a table; the class is a row of the registry",
    },
    scan.reads_the_environment: {
        "serve/_systemd.py": "the address of systemd's socket",
        "serve/_load_apps.py::read_config": "`${NAME}` in the configuration that the operator named",
        "agents/middleware/shell.py::ShellToolMiddleware.__init__": "what the shell inherits, unless env= says",
        "utils/env.py": "from_env and its kin: at the call",
        "providers/": "keys and addresses, at the call; the cache folder",
        "load/_reader.py::Secrets.find": "only names that the caller listed in `secrets_from_env`",
        "callbacks/hooks.py": "hooks registered in code with a variable",
        "messages/_output_version.py::output_version": "the default format of contents, at the call",
        "tracers/_redact.py::Redactor.__init__": "learns the secrets that it must hide",
        "utils/_data_places.py": "folders of the user, and whether and where traces are written",
        "studio/_playground.py::_has_key": "whether a provider can be asked; the value is not read",
        "batches/_executors.py::run_chunk": "sets, for its workers, the secrets that the program gave by name",
        "tracers/_revision.py::find_revision": "FOLDLINE_REVISION, recorded with traces",
        "tracers/_environment.py::tracing_variable": "whether LangSmith is to be told, at the first run",
        "compat/_private_names.py::_first_variable": "keys of LangChain's own providers, by the names they give",
        "prices/table.py::_read_variable": "a file of prices of the user's own",
        "transports/_proxy_environment.py": "proxies and certificates, unless `trust_env=False`",
        "_cli/": "the command line's settings",
        "_storage/workers.py::_seconds": "two times of owners of threads, when a saver is opened",
        "_traceback.py::is_debugging": "FOLDLINE_DEBUG, when an error passes",
    },
}
"""What -> where it happens. One sink each for fetch, open, format, SQL and revive; the rest leads there."""


def covers(allowance: str, finding: str) -> bool:
    return finding == allowance or finding.startswith(
        allowance if allowance.endswith("/") else (allowance + "::", allowance + ".")
    )


@pytest.mark.parametrize("rule", [*NOWHERE, *SINKS], ids=lambda rule: rule.__name__)
def test_contract_2_5_6_7_8_only_the_named_places(rule):
    allowed = {**NOWHERE, **SINKS}[rule]
    findings = scan.found_by(rule, scan.sources())

    strays = {
        finding for finding in findings if not any(covers(place, finding) for place in allowed)
    }
    unused = {place for place in allowed if not any(covers(place, finding) for finding in findings)}
    assert strays == set(), f"{rule.__name__}: go through a sink, or write down why this is one"
    assert unused == set(), "no longer there: take the line out"
    assert all(len(reason) > 8 for reason in allowed.values())


BAD = {
    scan.evaluates: ["eval(text)", "run = exec", "builtins.eval(x)", "__import__(name)"],
    scan.uses_unsafe_module: [
        "import pickle",
        "from xml.etree import ElementTree",
        "import yaml",
        "import_module('jinja2.sandbox')",
        "def f():\n    import marshal",
    ],
    scan.starts_a_program: ["os.system(x)", "import subprocess", "os.execv(a, b)", "os.fork()"],
    scan.uses_a_shell: [
        "run(x, shell=True)",
        "run(x, shell=flag)",
        "asyncio.create_subprocess_shell(x)",
    ],
    scan.imports_by_name: ["import_module(name)", "importlib.import_module(f'a.{b}')"],
    scan.loads_arrays_with_pickle: ["np.load(f)", "np.load(f, allow_pickle=flag)", "torch.load(f)"],
    scan.reaches_the_network: [
        "import socket",
        "asyncio.open_connection(h, 1)",
        "from urllib.request import urlopen",
    ],
    scan.sends_a_request: ["transport.open(request, blocking=True)"],
    scan.opens_a_file: ["open(name)", "Path(x).read_text()", "path.open('rb')", "os.open(p, 0)"],
    scan.formats: [
        "text.format(x=1)",
        "template.format_map(d)",
        "string.Formatter()",
        "a.b.format(c)",
    ],
    scan.runs_built_sql: [
        "c.execute(f'SELECT {name}')",
        "c.execute('SELECT ' + name)",
        "c.execute('SELECT %s' % name)",
        "c.executemany(statement, rows)",
        "connection.run(f'DELETE FROM {name}')",
        "connection.row(statement, values)",
        "connection.each('INSERT ' + name, rows)",
        "self._database.pages(statement)",
        "statements.run(text)",
    ],
    scan.calls_the_seam_otherwise: [
        "def work(c: Connection): ...",
        "lambda_ = lambda x: x\ndef f(d: Database): ...",
    ],
    scan.revives: ["from foldline.load.registry import resolve", "Base.__subclasses__()"],
    scan.reads_the_environment: ["os.environ['A']", "os.getenv('A')"],
}


@pytest.mark.parametrize(
    ("rule", "text"),
    [(rule, text) for rule, texts in BAD.items() for text in texts],
    ids=lambda value: value if isinstance(value, str) else value.__name__,
)
def test_the_scan_sees_what_it_is_for(rule, text):
    assert scan.found_by(rule, {"bad.py": scan.read(text)})


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        (scan.evaluates, "re.compile('a'); client.eval(SCRIPT)"),
        (scan.formats, "'a {}'.format(1); WORDS.format(x=1); TABLE['a'].format(1)"),
        (
            scan.runs_built_sql,
            "c.execute('SELECT 1'); c.execute(READ, (x,)); c.execute(f'{READ} LIMIT 1')",
        ),
        (
            scan.runs_built_sql,
            "connection.run(WRITE, row); connection.row('SELECT 1'); runner.run(job); self._each.each(x)",
        ),
        (scan.calls_the_seam_otherwise, "def work(connection: Connection, _: Connection): ..."),
        (scan.imports_by_name, "import_module('foldline.tools')"),
        (scan.opens_a_file, "transport.open(request, blocking=True)"),
    ],
    ids=lambda value: value if isinstance(value, str) else value.__name__,
)
def test_the_scan_lets_pass_what_is_written_out(rule, text):
    assert not scan.found_by(rule, {"good.py": scan.read(text)})


def test_every_sink_the_issue_names_has_a_rule():
    names = {rule.__name__ for rule in SINKS}
    assert names >= {"sends_a_request", "opens_a_file", "formats", "revives", "runs_built_sql"}
