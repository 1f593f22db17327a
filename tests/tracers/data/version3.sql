BEGIN TRANSACTION;
CREATE TABLE foldline_schema (kind TEXT PRIMARY KEY, version INTEGER NOT NULL);
INSERT INTO "foldline_schema" VALUES('traces',3);
CREATE TABLE forms (id TEXT PRIMARY KEY, body TEXT NOT NULL) STRICT, WITHOUT ROWID;
INSERT INTO "forms" VALUES('49765a5ec6c51794b5acd09d','{"lc": 1, "type": "not_implemented", "id": ["foldline", "language_models", "fake_chat_models", "GenericFakeChatModel"], "repr": "<foldline.language_models.fake_chat_models.GenericFakeChatModel>"}');
INSERT INTO "forms" VALUES('c23c7e7816f7535cf1a1086b','{"lc": 1, "type": "constructor", "id": ["foldline", "prompts", "ChatPromptTemplate"], "kwargs": {"input_variables": ["question"], "messages": [{"lc": 1, "type": "constructor", "id": ["foldline", "prompts", "SystemMessagePromptTemplate"], "kwargs": {"prompt": {"lc": 1, "type": "constructor", "id": ["foldline", "prompts", "PromptTemplate"], "kwargs": {"input_variables": [], "template": "Be short.", "template_format": "f-string"}}}}, {"lc": 1, "type": "constructor", "id": ["foldline", "prompts", "HumanMessagePromptTemplate"], "kwargs": {"prompt": {"lc": 1, "type": "constructor", "id": ["foldline", "prompts", "PromptTemplate"], "kwargs": {"input_variables": ["question"], "template": "{question}", "template_format": "f-string"}}}}]}, "name": "ChatPromptTemplate"}');
CREATE TABLE indexed_to (seq INTEGER NOT NULL) STRICT;
INSERT INTO "indexed_to" VALUES(5);
CREATE TABLE losses (
    start_time REAL NOT NULL,
    end_time REAL NOT NULL,
    runs INTEGER NOT NULL
) STRICT;
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
    status TEXT,
    incomplete INTEGER,
    question TEXT,
    answer TEXT,
    revision TEXT,
    config TEXT,
    usage TEXT,
    tags TEXT,
    error_message TEXT,
    interrupts TEXT,
    error TEXT,
    form TEXT,
    events TEXT,
    extra TEXT NOT NULL,
    inputs TEXT NOT NULL,
    outputs TEXT,
    request TEXT
) STRICT;
INSERT INTO "runs" VALUES(1,'01a1eccf-84ba-7d82-badb-d50858712b45','01a1eccf-84ba-7d82-badb-d50858712b45',NULL,'RunnableSequence','chain',1.79497438533890581128e+09,NULL,1.7949743853427584171e+09,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'t-1','ada',NULL,NULL,NULL,'Why is the sky blue?','Blue light is scattered more.','r1',NULL,NULL,'["physics"]',NULL,NULL,NULL,NULL,NULL,'{"metadata": {"thread_id": "t-1", "user_id": "ada"}}','{"question": "Why is the sky blue?"}','{"output": "Blue light is scattered more."}',NULL);
INSERT INTO "runs" VALUES(2,'01a1eccf-84bb-7ba9-a21c-36c53cd17f01','01a1eccf-84ba-7d82-badb-d50858712b45','01a1eccf-84ba-7d82-badb-d50858712b45','ChatPromptTemplate','prompt',1794974385.33976,NULL,1.79497438534003925323e+09,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'t-1','ada',NULL,NULL,NULL,'Why is the sky blue?','Why is the sky blue?',NULL,NULL,NULL,'["seq:step:1", "physics"]',NULL,NULL,NULL,'c23c7e7816f7535cf1a1086b',NULL,'{"metadata": {"thread_id": "t-1", "user_id": "ada"}}','{"question": "Why is the sky blue?"}','{"output": {"lc": 1, "type": "constructor", "id": ["foldline", "prompt_values", "ChatPromptValue"], "kwargs": {"messages": [{"lc": 1, "type": "constructor", "id": ["foldline", "messages", "SystemMessage"], "kwargs": {"content": "Be short.", "type": "system"}}, {"lc": 1, "type": "constructor", "id": ["foldline", "messages", "HumanMessage"], "kwargs": {"content": "Why is the sky blue?", "type": "human"}}]}}}',NULL);
INSERT INTO "runs" VALUES(3,'01a1eccf-84bc-7391-95f1-6a20d235517c','01a1eccf-84ba-7d82-badb-d50858712b45','01a1eccf-84ba-7d82-badb-d50858712b45','GenericFakeChatModel','llm',1.79497438534025502204e+09,NULL,1.79497438534264445305e+09,'openai','gpt-4o-mini',12,6,18,5.39999999999999912014e-06,NULL,'t-1','ada',NULL,NULL,NULL,'Why is the sky blue?','Blue light is scattered more.',NULL,NULL,'{"input_tokens": 12, "output_tokens": 6, "total_tokens": 18}','["seq:step:2", "physics"]',NULL,NULL,NULL,'49765a5ec6c51794b5acd09d',NULL,'{"invocation_params": {"_type": "generic-fake-chat-model", "stop": null}, "options": {"stop": null}, "batch_size": 1, "metadata": {"thread_id": "t-1", "user_id": "ada", "ls_provider": "genericfakechatmodel", "ls_model_type": "chat"}}','{"messages": [[{"lc": 1, "type": "constructor", "id": ["foldline", "messages", "SystemMessage"], "kwargs": {"content": "Be short.", "type": "system"}}, {"lc": 1, "type": "constructor", "id": ["foldline", "messages", "HumanMessage"], "kwargs": {"content": "Why is the sky blue?", "type": "human"}}]]}','{"generations": [[{"text": "Blue light is scattered more.", "generation_info": null, "type": "ChatGeneration", "message": {"lc": 1, "type": "constructor", "id": ["foldline", "messages", "AIMessage"], "kwargs": {"content": "Blue light is scattered more.", "response_metadata": {"model_provider": "openai", "model_name": "gpt-4o-mini"}, "id": "lc_run--01a1eccf-84bc-7391-95f1-6a20d235517c-0", "usage_metadata": {"input_tokens": 12, "output_tokens": 6, "total_tokens": 18}, "type": "ai", "tool_calls": [], "invalid_tool_calls": []}}}]], "llm_output": {"model_name": "gpt-4o-mini", "model_provider": "openai", "token_usage": {"prompt_tokens": 12, "completion_tokens": 6, "total_tokens": 18}}, "run": null, "type": "LLMResult"}',NULL);
INSERT INTO "runs" VALUES(4,'01a1eccf-84be-7b5b-9c3b-34ceee93c771','01a1eccf-84ba-7d82-badb-d50858712b45','01a1eccf-84ba-7d82-badb-d50858712b45','StrOutputParser','parser',1.79497438534272742271e+09,NULL,1.79497438534274625777e+09,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'t-1','ada',NULL,NULL,NULL,'Blue light is scattered more.','Blue light is scattered more.',NULL,NULL,NULL,'["seq:step:3", "physics"]',NULL,NULL,NULL,NULL,NULL,'{"metadata": {"thread_id": "t-1", "user_id": "ada"}}','{"input": {"lc": 1, "type": "constructor", "id": ["foldline", "messages", "AIMessage"], "kwargs": {"content": "Blue light is scattered more.", "response_metadata": {"model_provider": "openai", "model_name": "gpt-4o-mini"}, "id": "lc_run--01a1eccf-84bc-7391-95f1-6a20d235517c-0", "usage_metadata": {"input_tokens": 12, "output_tokens": 6, "total_tokens": 18}, "type": "ai", "tool_calls": [], "invalid_tool_calls": []}}}','{"output": "Blue light is scattered more."}',NULL);
INSERT INTO "runs" VALUES(5,'01a1eccf-84c9-748a-b29b-d842543391cc','01a1eccf-84c9-748a-b29b-d842543391cc',NULL,'fail','chain',1.79497438535331630708e+09,NULL,1794974385.35498,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'t-1',NULL,'ValueError',NULL,NULL,'x',NULL,'r1',NULL,NULL,NULL,'no such thing: größe',NULL,'ValueError(''no such thing: größe'')

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
  File "/home/ada/app.py", line 16, in fail
    def fail(x): raise ValueError("no such thing: größe")
                 ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
ValueError: no such thing: größe
',NULL,NULL,'{"metadata": {"thread_id": "t-1"}}','{"input": "x"}',NULL,NULL);
INSERT INTO "runs" VALUES(6,'00000000-0000-4000-8000-000000000001','00000000-0000-4000-8000-000000000001',NULL,'unfinished','chain',1.79497438537751340861e+09,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'half',NULL,'r1',NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'{}','{"input": "half"}',NULL,NULL);
CREATE TABLE scores (
    id TEXT PRIMARY KEY,
    run_id TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    name TEXT NOT NULL,
    value REAL,
    comment TEXT,
    author TEXT,
    time REAL NOT NULL
) STRICT;
INSERT INTO "scores" VALUES('01a1eccf-84db-7c0c-a4d7-7728e18ed19c','01a1eccf-84c9-748a-b29b-d842543391cc','helpful',1.0,'it is','ada',1.79497438537178373332e+09);
CREATE TABLE tags (
    tag TEXT NOT NULL,
    run_id TEXT NOT NULL,
    PRIMARY KEY (tag, run_id)
) STRICT, WITHOUT ROWID;
INSERT INTO "tags" VALUES('physics','01a1eccf-84ba-7d82-badb-d50858712b45');
INSERT INTO "tags" VALUES('physics','01a1eccf-84bb-7ba9-a21c-36c53cd17f01');
INSERT INTO "tags" VALUES('physics','01a1eccf-84bc-7391-95f1-6a20d235517c');
INSERT INTO "tags" VALUES('physics','01a1eccf-84be-7b5b-9c3b-34ceee93c771');
INSERT INTO "tags" VALUES('seq:step:1','01a1eccf-84bb-7ba9-a21c-36c53cd17f01');
INSERT INTO "tags" VALUES('seq:step:2','01a1eccf-84bc-7391-95f1-6a20d235517c');
INSERT INTO "tags" VALUES('seq:step:3','01a1eccf-84be-7b5b-9c3b-34ceee93c771');
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
CREATE INDEX runs_that_wait ON runs (start_time) WHERE status IS NOT NULL;
CREATE INDEX scores_by_run ON scores (run_id);
CREATE VIRTUAL TABLE words USING fts5 (text, content='', tokenize='unicode61 remove_diacritics 2');
DELETE FROM words_config;
DELETE FROM words_data;
DELETE FROM words_docsize;
DELETE FROM words_idx;
INSERT INTO words_config VALUES('version', 4);
INSERT INTO words_data VALUES(1, X'0537');
INSERT INTO words_data VALUES(10, X'000000000101010001010101');
INSERT INTO words_data VALUES(137438953473, X'0000013C0330626502020801020302036C75650104070301040709010409030104030701126368617470726F6D707474656D706C61746502020201046661696C050202011467656E6572696366616B65636861746D6F64656C0302020205726FC39F65050208010269730104040801040409010406080104050701056C6967687401020902020B0104040701046D6F726501020C02020E0104070701026E6F050205011072756E6E61626C6573657175656E6365010202010973636174746572656401020B02020D010406070204686F727402020901020402026B7901020601040609010208020E74726F757470757470617273657204020202037563680502060103746865010205010405090102070303696E67050207010A76616C75656572726F72050204010377687901020301040309010205010178050203040A151709190A1411100715150C0E13080F080F0F');
INSERT INTO words_docsize VALUES(1, X'0B');
INSERT INTO words_docsize VALUES(2, X'0D');
INSERT INTO words_docsize VALUES(3, X'0D');
INSERT INTO words_docsize VALUES(4, X'0B');
INSERT INTO words_docsize VALUES(5, X'07');
INSERT INTO words_idx VALUES(1, X'', 2);
COMMIT;
