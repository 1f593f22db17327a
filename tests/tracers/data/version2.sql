BEGIN TRANSACTION;
CREATE TABLE foldline_schema (kind TEXT PRIMARY KEY, version INTEGER NOT NULL);
INSERT INTO "foldline_schema" VALUES('traces',2);
CREATE TABLE forms (id TEXT PRIMARY KEY, body TEXT NOT NULL) STRICT, WITHOUT ROWID;
INSERT INTO "forms" VALUES('7b3629f3dabe291ca50f261f','{"lc": 1, "type": "not_implemented", "id": ["foldline", "testing", "models", "ScriptedChatModel"], "repr": "<foldline.testing.models.ScriptedChatModel>"}');
CREATE TABLE indexed_to (seq INTEGER NOT NULL) STRICT;
INSERT INTO "indexed_to" VALUES(0);
CREATE TABLE runs (
    seq INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    trace_id TEXT NOT NULL,
    parent_run_id TEXT,
    name TEXT NOT NULL,
    run_type TEXT NOT NULL,
    start_time REAL NOT NULL,
    first_token_time REAL,
    end_time REAL,
    provider TEXT,
    model TEXT,
    input_tokens INTEGER,
    output_tokens INTEGER,
    total_tokens INTEGER,
    cost REAL,
    session_id TEXT,
    thread_id TEXT,
    user_id TEXT,
    error_class TEXT,
    question TEXT,
    answer TEXT,
    usage TEXT,
    tags TEXT,
    error TEXT,
    form TEXT,
    events TEXT,
    extra TEXT NOT NULL,
    inputs TEXT NOT NULL,
    outputs TEXT,
    request TEXT
) STRICT;
INSERT INTO "runs" VALUES(1,'01a1ec10-3e6b-7383-ac16-d63722712c02','01a1ec10-3e6b-7383-ac16-d63722712c02',NULL,'RunnableSequence','chain',1.79496184996325373645e+09,NULL,1.79496184996543908123e+09,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'t-1','ada',NULL,'Why is the sky blue?','Blue light is scattered more.',NULL,'["nightly"]',NULL,NULL,NULL,'{"metadata": {"thread_id": "t-1", "user_id": "ada"}}','{"input": "Why is the sky blue?"}','{"output": {"lc": 1, "type": "constructor", "id": ["foldline", "messages", "AIMessage"], "kwargs": {"content": "Blue light is scattered more.", "response_metadata": {"model_provider": "scripted", "model_name": "scripted"}, "id": "msg_1", "finish_reason": "stop", "type": "ai", "tool_calls": [], "invalid_tool_calls": []}}}',NULL);
INSERT INTO "runs" VALUES(2,'01a1ec10-3e6b-7971-b455-835587103206','01a1ec10-3e6b-7383-ac16-d63722712c02','01a1ec10-3e6b-7383-ac16-d63722712c02','pass_on','chain',1.79496184996360135075e+09,NULL,1.79496184996367192264e+09,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'t-1','ada',NULL,'Why is the sky blue?','Why is the sky blue?',NULL,'["seq:step:1", "nightly"]',NULL,NULL,NULL,'{"metadata": {"thread_id": "t-1", "user_id": "ada"}}','{"input": "Why is the sky blue?"}','{"output": "Why is the sky blue?"}',NULL);
INSERT INTO "runs" VALUES(3,'01a1ec10-3e6b-7c43-9492-e1b807480ae6','01a1ec10-3e6b-7383-ac16-d63722712c02','01a1ec10-3e6b-7383-ac16-d63722712c02','ScriptedChatModel','llm',1.79496184996377921108e+09,NULL,1.79496184996542048457e+09,'scripted','scripted',NULL,NULL,NULL,NULL,NULL,'t-1','ada',NULL,'Why is the sky blue?','Blue light is scattered more.',NULL,'["seq:step:2", "nightly"]',NULL,'7b3629f3dabe291ca50f261f',NULL,'{"invocation_params": {"model": "scripted", "_type": "scripted", "stop": null}, "options": {"stop": null}, "batch_size": 1, "metadata": {"thread_id": "t-1", "user_id": "ada", "ls_provider": "scripted", "ls_model_type": "chat", "ls_model_name": "scripted"}}','{"messages": [[{"lc": 1, "type": "constructor", "id": ["foldline", "messages", "HumanMessage"], "kwargs": {"content": "Why is the sky blue?", "type": "human"}}]]}','{"generations": [[{"text": "Blue light is scattered more.", "generation_info": null, "type": "ChatGeneration", "message": {"lc": 1, "type": "constructor", "id": ["foldline", "messages", "AIMessage"], "kwargs": {"content": "Blue light is scattered more.", "response_metadata": {"model_provider": "scripted", "model_name": "scripted"}, "id": "msg_1", "finish_reason": "stop", "type": "ai", "tool_calls": [], "invalid_tool_calls": []}}}]], "llm_output": {"model_name": "scripted", "model_provider": "scripted"}, "run": null, "type": "LLMResult"}',NULL);
INSERT INTO "runs" VALUES(4,'01a1ec10-3e6d-7838-b2c9-394d5a35d18d','01a1ec10-3e6d-7838-b2c9-394d5a35d18d',NULL,'fail','chain',1.79496184996552395822e+09,NULL,1.79496184996644186967e+09,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'t-1','ada','ValueError','9',NULL,NULL,'["nightly"]','ValueError(''no nine'')

Traceback (most recent call last):
  File "/home/ada/lib/foldline/runnables/_trace.py", line 145, in call
    output = await runnable._invoke_body(value, run)
             ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "/home/ada/lib/foldline/runnables/lambda_.py", line 162, in _invoke_body
    result = await self._call(input, run)
             ^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "/home/ada/lib/foldline/runnables/lambda_.py", line 158, in _call
    return await run.io.call(function, input, **_functions.extras(wants, run))
           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "/home/ada/lib/foldline/_io/blocking.py", line 73, in call
    result = function(*args, **kwargs)
             ^^^^^^^^^^^^^^^^^^^^^^^^^
  File "/home/ada/app.py", line 7, in fail
    def fail(x): raise ValueError("no nine")
                 ^^^^^^^^^^^^^^^^^^^^^^^^^^^
ValueError: no nine
',NULL,NULL,'{"metadata": {"thread_id": "t-1", "user_id": "ada"}}','{"input": 9}',NULL,NULL);
CREATE TABLE scores (
    id TEXT PRIMARY KEY,
    run_id TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    name TEXT NOT NULL,
    value REAL,
    comment TEXT,
    author TEXT,
    time REAL NOT NULL
) STRICT;
INSERT INTO "scores" VALUES('01a1ec10-3e72-7f14-be20-3be1683bbb07','01a1ec10-3e6d-7838-b2c9-394d5a35d18d','helpful',1.0,NULL,NULL,1.79496184997095561031e+09);
CREATE TABLE tags (
    tag TEXT NOT NULL,
    run_id TEXT NOT NULL,
    PRIMARY KEY (tag, run_id)
) STRICT, WITHOUT ROWID;
INSERT INTO "tags" VALUES('nightly','01a1ec10-3e6b-7383-ac16-d63722712c02');
INSERT INTO "tags" VALUES('nightly','01a1ec10-3e6b-7971-b455-835587103206');
INSERT INTO "tags" VALUES('nightly','01a1ec10-3e6b-7c43-9492-e1b807480ae6');
INSERT INTO "tags" VALUES('nightly','01a1ec10-3e6d-7838-b2c9-394d5a35d18d');
INSERT INTO "tags" VALUES('seq:step:1','01a1ec10-3e6b-7971-b455-835587103206');
INSERT INTO "tags" VALUES('seq:step:2','01a1ec10-3e6b-7c43-9492-e1b807480ae6');
CREATE TABLE unindexed (seq INTEGER PRIMARY KEY) STRICT;
CREATE INDEX runs_by_trace ON runs (trace_id);
CREATE INDEX runs_by_time ON runs (start_time);
CREATE INDEX roots_by_time ON runs (start_time) WHERE parent_run_id IS NULL;
CREATE INDEX runs_by_error ON runs (start_time) WHERE error_class IS NOT NULL;
CREATE INDEX calls_by_model ON runs (
    model, start_time, end_time, first_token_time, input_tokens, output_tokens, cost, error_class
) WHERE model IS NOT NULL;
CREATE INDEX runs_by_thread ON runs (thread_id, start_time) WHERE thread_id IS NOT NULL;
CREATE INDEX runs_by_session ON runs (session_id, start_time) WHERE session_id IS NOT NULL;
CREATE INDEX runs_by_user ON runs (user_id, start_time) WHERE user_id IS NOT NULL;
CREATE INDEX runs_under_way ON runs (start_time) WHERE end_time IS NULL;
CREATE INDEX scores_by_run ON scores (run_id);
CREATE VIRTUAL TABLE words USING fts5 (text, content='', tokenize='unicode61 remove_diacritics 2');
COMMIT;
