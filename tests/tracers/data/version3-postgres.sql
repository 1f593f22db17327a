CREATE SCHEMA foldline_traces;
CREATE TABLE foldline_traces.foldline_schema (
    version integer NOT NULL
);
CREATE TABLE foldline_traces.forms (
    id text NOT NULL,
    body text NOT NULL
);
CREATE TABLE foldline_traces.indexed_to (
    seq bigint NOT NULL
);
CREATE TABLE foldline_traces.losses (
    start_time double precision NOT NULL,
    end_time double precision NOT NULL,
    runs bigint NOT NULL
);
CREATE TABLE foldline_traces.runs (
    seq bigint NOT NULL,
    id text NOT NULL,
    trace_id text NOT NULL,
    parent_run_id text,
    name text NOT NULL,
    run_type text NOT NULL,
    start_time double precision NOT NULL,
    first_token_time double precision,
    end_time double precision,
    provider text,
    model text,
    input_tokens bigint,
    output_tokens bigint,
    total_tokens bigint,
    cost double precision,
    session_id text,
    thread_id text,
    user_id text,
    error_class text,
    status text,
    incomplete integer,
    question text,
    answer text,
    revision text,
    config text,
    usage text,
    tags text,
    error_message text,
    interrupts text,
    error text,
    form text,
    events text,
    extra text NOT NULL,
    inputs text NOT NULL,
    outputs text,
    request text
);
ALTER TABLE foldline_traces.runs ALTER COLUMN seq ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME foldline_traces.runs_seq_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE foldline_traces.scores (
    id text NOT NULL,
    run_id text NOT NULL,
    name text NOT NULL,
    value double precision,
    comment text,
    author text,
    "time" double precision NOT NULL
);
CREATE TABLE foldline_traces.tags (
    tag text NOT NULL,
    run_id text NOT NULL
);
CREATE TABLE foldline_traces.unindexed (
    seq bigint NOT NULL
);
CREATE TABLE foldline_traces.words (
    seq bigint NOT NULL,
    lexemes tsvector NOT NULL
);
INSERT INTO foldline_traces.foldline_schema VALUES (3);
INSERT INTO foldline_traces.forms VALUES ('c23c7e7816f7535cf1a1086b', '{"lc": 1, "type": "constructor", "id": ["foldline", "prompts", "ChatPromptTemplate"], "kwargs": {"input_variables": ["question"], "messages": [{"lc": 1, "type": "constructor", "id": ["foldline", "prompts", "SystemMessagePromptTemplate"], "kwargs": {"prompt": {"lc": 1, "type": "constructor", "id": ["foldline", "prompts", "PromptTemplate"], "kwargs": {"input_variables": [], "template": "Be short.", "template_format": "f-string"}}}}, {"lc": 1, "type": "constructor", "id": ["foldline", "prompts", "HumanMessagePromptTemplate"], "kwargs": {"prompt": {"lc": 1, "type": "constructor", "id": ["foldline", "prompts", "PromptTemplate"], "kwargs": {"input_variables": ["question"], "template": "{question}", "template_format": "f-string"}}}}]}, "name": "ChatPromptTemplate"}');
INSERT INTO foldline_traces.forms VALUES ('49765a5ec6c51794b5acd09d', '{"lc": 1, "type": "not_implemented", "id": ["foldline", "language_models", "fake_chat_models", "GenericFakeChatModel"], "repr": "<foldline.language_models.fake_chat_models.GenericFakeChatModel>"}');
INSERT INTO foldline_traces.indexed_to VALUES (5);
INSERT INTO foldline_traces.runs OVERRIDING SYSTEM VALUE VALUES (1, '01a1eccf-7fae-7d83-ae1a-0dd97c6f823f', '01a1eccf-7fae-7d83-ae1a-0dd97c6f823f', NULL, 'RunnableSequence', 'chain', 1794974384.0469248, NULL, 1794974384.0500882, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 't-1', 'ada', NULL, NULL, NULL, 'Why is the sky blue?', 'Blue light is scattered more.', 'r1', NULL, NULL, '["physics"]', NULL, NULL, NULL, NULL, NULL, '{"metadata": {"thread_id": "t-1", "user_id": "ada"}}', '{"question": "Why is the sky blue?"}', '{"output": "Blue light is scattered more."}', NULL);
INSERT INTO foldline_traces.runs OVERRIDING SYSTEM VALUE VALUES (2, '01a1eccf-7faf-7c76-8992-47c0920aa2a4', '01a1eccf-7fae-7d83-ae1a-0dd97c6f823f', '01a1eccf-7fae-7d83-ae1a-0dd97c6f823f', 'ChatPromptTemplate', 'prompt', 1794974384.0478036, NULL, 1794974384.0480945, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 't-1', 'ada', NULL, NULL, NULL, 'Why is the sky blue?', 'Why is the sky blue?', NULL, NULL, NULL, '["seq:step:1", "physics"]', NULL, NULL, NULL, 'c23c7e7816f7535cf1a1086b', NULL, '{"metadata": {"thread_id": "t-1", "user_id": "ada"}}', '{"question": "Why is the sky blue?"}', '{"output": {"lc": 1, "type": "constructor", "id": ["foldline", "prompt_values", "ChatPromptValue"], "kwargs": {"messages": [{"lc": 1, "type": "constructor", "id": ["foldline", "messages", "SystemMessage"], "kwargs": {"content": "Be short.", "type": "system"}}, {"lc": 1, "type": "constructor", "id": ["foldline", "messages", "HumanMessage"], "kwargs": {"content": "Why is the sky blue?", "type": "human"}}]}}}', NULL);
INSERT INTO foldline_traces.runs OVERRIDING SYSTEM VALUE VALUES (3, '01a1eccf-7fb0-74d2-b9fd-0f4fd03be3d8', '01a1eccf-7fae-7d83-ae1a-0dd97c6f823f', '01a1eccf-7fae-7d83-ae1a-0dd97c6f823f', 'GenericFakeChatModel', 'llm', 1794974384.0483248, NULL, 1794974384.0499809, 'openai', 'gpt-4o-mini', 12, 6, 18, 5.399999999999999e-06, NULL, 't-1', 'ada', NULL, NULL, NULL, 'Why is the sky blue?', 'Blue light is scattered more.', NULL, NULL, '{"input_tokens": 12, "output_tokens": 6, "total_tokens": 18}', '["seq:step:2", "physics"]', NULL, NULL, NULL, '49765a5ec6c51794b5acd09d', NULL, '{"invocation_params": {"_type": "generic-fake-chat-model", "stop": null}, "options": {"stop": null}, "batch_size": 1, "metadata": {"thread_id": "t-1", "user_id": "ada", "ls_provider": "genericfakechatmodel", "ls_model_type": "chat"}}', '{"messages": [[{"lc": 1, "type": "constructor", "id": ["foldline", "messages", "SystemMessage"], "kwargs": {"content": "Be short.", "type": "system"}}, {"lc": 1, "type": "constructor", "id": ["foldline", "messages", "HumanMessage"], "kwargs": {"content": "Why is the sky blue?", "type": "human"}}]]}', '{"generations": [[{"text": "Blue light is scattered more.", "generation_info": null, "type": "ChatGeneration", "message": {"lc": 1, "type": "constructor", "id": ["foldline", "messages", "AIMessage"], "kwargs": {"content": "Blue light is scattered more.", "response_metadata": {"model_provider": "openai", "model_name": "gpt-4o-mini"}, "id": "lc_run--01a1eccf-7fb0-74d2-b9fd-0f4fd03be3d8-0", "usage_metadata": {"input_tokens": 12, "output_tokens": 6, "total_tokens": 18}, "type": "ai", "tool_calls": [], "invalid_tool_calls": []}}}]], "llm_output": {"model_name": "gpt-4o-mini", "model_provider": "openai", "token_usage": {"prompt_tokens": 12, "completion_tokens": 6, "total_tokens": 18}}, "run": null, "type": "LLMResult"}', NULL);
INSERT INTO foldline_traces.runs OVERRIDING SYSTEM VALUE VALUES (4, '01a1eccf-7fb2-70b7-a9ee-640b7df6ffd2', '01a1eccf-7fae-7d83-ae1a-0dd97c6f823f', '01a1eccf-7fae-7d83-ae1a-0dd97c6f823f', 'StrOutputParser', 'parser', 1794974384.0500603, NULL, 1794974384.0500772, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 't-1', 'ada', NULL, NULL, NULL, 'Blue light is scattered more.', 'Blue light is scattered more.', NULL, NULL, NULL, '["seq:step:3", "physics"]', NULL, NULL, NULL, NULL, NULL, '{"metadata": {"thread_id": "t-1", "user_id": "ada"}}', '{"input": {"lc": 1, "type": "constructor", "id": ["foldline", "messages", "AIMessage"], "kwargs": {"content": "Blue light is scattered more.", "response_metadata": {"model_provider": "openai", "model_name": "gpt-4o-mini"}, "id": "lc_run--01a1eccf-7fb0-74d2-b9fd-0f4fd03be3d8-0", "usage_metadata": {"input_tokens": 12, "output_tokens": 6, "total_tokens": 18}, "type": "ai", "tool_calls": [], "invalid_tool_calls": []}}}', '{"output": "Blue light is scattered more."}', NULL);
INSERT INTO foldline_traces.runs OVERRIDING SYSTEM VALUE VALUES (5, '01a1eccf-7fbc-787a-94b9-8759ee664848', '01a1eccf-7fbc-787a-94b9-8759ee664848', NULL, 'fail', 'chain', 1794974384.0606086, NULL, 1794974384.061664, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 't-1', NULL, 'ValueError', NULL, NULL, 'x', NULL, 'r1', NULL, NULL, NULL, 'no such thing: größe', NULL, 'ValueError(''no such thing: größe'')
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
', NULL, NULL, '{"metadata": {"thread_id": "t-1"}}', '{"input": "x"}', NULL, NULL);
INSERT INTO foldline_traces.runs OVERRIDING SYSTEM VALUE VALUES (6, '00000000-0000-4000-8000-000000000001', '00000000-0000-4000-8000-000000000001', NULL, 'unfinished', 'chain', 1794974384.115644, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 'half', NULL, 'r1', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '{}', '{"input": "half"}', NULL, NULL);
INSERT INTO foldline_traces.scores VALUES ('01a1eccf-7fe0-72eb-9ebe-bf5eaf69ffdb', '01a1eccf-7fbc-787a-94b9-8759ee664848', 'helpful', 1, 'it is', 'ada', 1794974384.0962245);
INSERT INTO foldline_traces.tags VALUES ('physics', '01a1eccf-7fae-7d83-ae1a-0dd97c6f823f');
INSERT INTO foldline_traces.tags VALUES ('seq:step:1', '01a1eccf-7faf-7c76-8992-47c0920aa2a4');
INSERT INTO foldline_traces.tags VALUES ('physics', '01a1eccf-7faf-7c76-8992-47c0920aa2a4');
INSERT INTO foldline_traces.tags VALUES ('seq:step:2', '01a1eccf-7fb0-74d2-b9fd-0f4fd03be3d8');
INSERT INTO foldline_traces.tags VALUES ('physics', '01a1eccf-7fb0-74d2-b9fd-0f4fd03be3d8');
INSERT INTO foldline_traces.tags VALUES ('seq:step:3', '01a1eccf-7fb2-70b7-a9ee-640b7df6ffd2');
INSERT INTO foldline_traces.tags VALUES ('physics', '01a1eccf-7fb2-70b7-a9ee-640b7df6ffd2');
INSERT INTO foldline_traces.words VALUES (1, '''blue'':6,7 ''is'':3,9 ''light'':8 ''more'':11 ''runnablesequence'':1 ''scattered'':10 ''sky'':5 ''the'':4 ''why'':2');
INSERT INTO foldline_traces.words VALUES (2, '''be'':7 ''blue'':6,13 ''chatprompttemplate'':1 ''is'':3,10 ''short'':8 ''sky'':5,12 ''the'':4,11 ''why'':2,9');
INSERT INTO foldline_traces.words VALUES (3, '''be'':2 ''blue'':8,9 ''genericfakechatmodel'':1 ''is'':5,11 ''light'':10 ''more'':13 ''scattered'':12 ''short'':3 ''sky'':7 ''the'':6 ''why'':4');
INSERT INTO foldline_traces.words VALUES (4, '''blue'':2,7 ''is'':4,9 ''light'':3,8 ''more'':6,11 ''scattered'':5,10 ''stroutputparser'':1');
INSERT INTO foldline_traces.words VALUES (5, '''fail'':1 ''große'':7 ''no'':4 ''such'':5 ''thing'':6 ''valueerror'':3 ''x'':2');
SELECT pg_catalog.setval('foldline_traces.runs_seq_seq', 6, true);
ALTER TABLE ONLY foldline_traces.forms
    ADD CONSTRAINT forms_pkey PRIMARY KEY (id);
ALTER TABLE ONLY foldline_traces.runs
    ADD CONSTRAINT runs_id_key UNIQUE (id);
ALTER TABLE ONLY foldline_traces.runs
    ADD CONSTRAINT runs_pkey PRIMARY KEY (seq);
ALTER TABLE ONLY foldline_traces.scores
    ADD CONSTRAINT scores_pkey PRIMARY KEY (id);
ALTER TABLE ONLY foldline_traces.tags
    ADD CONSTRAINT tags_pkey PRIMARY KEY (tag, run_id);
ALTER TABLE ONLY foldline_traces.unindexed
    ADD CONSTRAINT unindexed_pkey PRIMARY KEY (seq);
ALTER TABLE ONLY foldline_traces.words
    ADD CONSTRAINT words_pkey PRIMARY KEY (seq);
CREATE INDEX calls_by_model ON foldline_traces.runs USING btree (model, start_time) INCLUDE (end_time, first_token_time, input_tokens, output_tokens, cost, error_class) WHERE (model IS NOT NULL);
CREATE INDEX roots_by_time ON foldline_traces.runs USING btree (start_time) WHERE (parent_run_id IS NULL);
CREATE INDEX runs_by_error ON foldline_traces.runs USING btree (start_time) WHERE (error_class IS NOT NULL);
CREATE INDEX runs_by_session ON foldline_traces.runs USING btree (session_id, start_time) WHERE (session_id IS NOT NULL);
CREATE INDEX runs_by_thread ON foldline_traces.runs USING btree (thread_id, start_time) WHERE (thread_id IS NOT NULL);
CREATE INDEX runs_by_time ON foldline_traces.runs USING btree (start_time);
CREATE INDEX runs_by_trace ON foldline_traces.runs USING btree (trace_id);
CREATE INDEX runs_by_user ON foldline_traces.runs USING btree (user_id, start_time) WHERE (user_id IS NOT NULL);
CREATE INDEX runs_that_wait ON foldline_traces.runs USING btree (start_time) WHERE (status IS NOT NULL);
CREATE INDEX runs_under_way ON foldline_traces.runs USING btree (start_time) WHERE (end_time IS NULL);
CREATE INDEX scores_by_run ON foldline_traces.scores USING btree (run_id);
CREATE INDEX words_by_lexeme ON foldline_traces.words USING gin (lexemes);
ALTER TABLE ONLY foldline_traces.scores
    ADD CONSTRAINT scores_run_id_fkey FOREIGN KEY (run_id) REFERENCES foldline_traces.runs(id) ON DELETE CASCADE;
