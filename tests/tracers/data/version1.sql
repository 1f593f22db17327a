BEGIN TRANSACTION;
CREATE TABLE foldline_schema (kind TEXT PRIMARY KEY, version INTEGER NOT NULL);
INSERT INTO "foldline_schema" VALUES('traces',1);
CREATE TABLE runs (
    id TEXT PRIMARY KEY,
    trace_id TEXT NOT NULL,
    parent_run_id TEXT,
    name TEXT NOT NULL,
    run_type TEXT NOT NULL,
    start_time REAL NOT NULL,
    first_token_time REAL,
    end_time REAL,
    input_tokens INTEGER,
    output_tokens INTEGER,
    total_tokens INTEGER,
    error TEXT,
    inputs TEXT NOT NULL,
    outputs TEXT,
    serialized TEXT,
    extra TEXT NOT NULL,
    tags TEXT NOT NULL,
    events TEXT NOT NULL,
    dotted_order TEXT NOT NULL
) STRICT;
INSERT INTO "runs" VALUES('01a1e6e0-6dbe-7871-be2b-cd1083613bdc','01a1e6e0-6dbe-7871-be2b-cd1083613bdc',NULL,'RunnableSequence','chain',1.79487483027060890198e+09,NULL,1.79487483027533793449e+09,NULL,NULL,NULL,NULL,'{"question": "Why is the sky blue?"}','{"output": "Blue light is scattered more."}',NULL,'{"metadata": {"thread_id": "t-1", "user_id": "ada"}}','["nightly"]','[{"name": "start", "time": "2026-11-17T00:20:30.270609+00:00"}, {"name": "end", "time": "2026-11-17T00:20:30.275338+00:00"}]','20261117T002030270609Z01a1e6e0-6dbe-7871-be2b-cd1083613bdc');
INSERT INTO "runs" VALUES('01a1e6e0-6dc0-7938-9d98-c18592166c8d','01a1e6e0-6dbe-7871-be2b-cd1083613bdc','01a1e6e0-6dbe-7871-be2b-cd1083613bdc','ChatPromptTemplate','prompt',1.794874830272605896e+09,NULL,1.79487483027293109894e+09,NULL,NULL,NULL,NULL,'{"question": "Why is the sky blue?"}','{"output": {"lc": 1, "type": "constructor", "id": ["foldline", "prompt_values", "ChatPromptValue"], "kwargs": {"messages": [{"lc": 1, "type": "constructor", "id": ["foldline", "messages", "SystemMessage"], "kwargs": {"content": "Be short."}}, {"lc": 1, "type": "constructor", "id": ["foldline", "messages", "HumanMessage"], "kwargs": {"content": "Why is the sky blue?"}}]}}}','{"lc": 1, "type": "constructor", "id": ["foldline", "prompts", "ChatPromptTemplate"], "kwargs": {"input_variables": ["question"], "messages": [{"lc": 1, "type": "constructor", "id": ["foldline", "prompts", "SystemMessagePromptTemplate"], "kwargs": {"prompt": {"lc": 1, "type": "constructor", "id": ["foldline", "prompts", "PromptTemplate"], "kwargs": {"input_variables": [], "template": "Be short.", "template_format": "f-string"}}}}, {"lc": 1, "type": "constructor", "id": ["foldline", "prompts", "HumanMessagePromptTemplate"], "kwargs": {"prompt": {"lc": 1, "type": "constructor", "id": ["foldline", "prompts", "PromptTemplate"], "kwargs": {"input_variables": ["question"], "template": "{question}", "template_format": "f-string"}}}}]}, "name": "ChatPromptTemplate"}','{"metadata": {"thread_id": "t-1", "user_id": "ada"}}','["seq:step:1", "nightly"]','[{"name": "start", "time": "2026-11-17T00:20:30.272606+00:00"}, {"name": "end", "time": "2026-11-17T00:20:30.272931+00:00"}]','20261117T002030270609Z01a1e6e0-6dbe-7871-be2b-cd1083613bdc.20261117T002030272606Z01a1e6e0-6dc0-7938-9d98-c18592166c8d');
INSERT INTO "runs" VALUES('01a1e6e0-6dc1-7217-aaff-d783029ef198','01a1e6e0-6dbe-7871-be2b-cd1083613bdc','01a1e6e0-6dbe-7871-be2b-cd1083613bdc','GenericFakeChatModel','llm',1.7948748302731590271e+09,NULL,1.79487483027516198158e+09,8,2,10,NULL,'{"messages": [[{"lc": 1, "type": "constructor", "id": ["foldline", "messages", "SystemMessage"], "kwargs": {"content": "Be short."}}, {"lc": 1, "type": "constructor", "id": ["foldline", "messages", "HumanMessage"], "kwargs": {"content": "Why is the sky blue?"}}]]}','{"generations": [[{"text": "Blue light is scattered more.", "generation_info": null, "type": "ChatGeneration", "message": {"lc": 1, "type": "constructor", "id": ["foldline", "messages", "AIMessage"], "kwargs": {"content": "Blue light is scattered more.", "response_metadata": {"model_provider": "openai", "model_name": "gpt-4o-mini"}, "id": "lc_run--01a1e6e0-6dc1-7217-aaff-d783029ef198-0", "usage_metadata": {"input_tokens": 8, "output_tokens": 2, "total_tokens": 10}, "tool_calls": [], "invalid_tool_calls": []}}}]], "llm_output": {"model_name": "gpt-4o-mini", "model_provider": "openai", "token_usage": {"prompt_tokens": 8, "completion_tokens": 2, "total_tokens": 10}}, "run": null, "type": "LLMResult"}','{"lc": 1, "type": "not_implemented", "id": ["foldline", "language_models", "fake_chat_models", "GenericFakeChatModel"], "repr": "<foldline.language_models.fake_chat_models.GenericFakeChatModel>"}','{"invocation_params": {"_type": "generic-fake-chat-model", "stop": null}, "options": {"stop": null}, "batch_size": 1, "metadata": {"thread_id": "t-1", "user_id": "ada", "ls_provider": "genericfakechatmodel", "ls_model_type": "chat"}}','["seq:step:2", "nightly"]','[{"name": "start", "time": "2026-11-17T00:20:30.273159+00:00"}, {"name": "end", "time": "2026-11-17T00:20:30.275162+00:00"}]','20261117T002030270609Z01a1e6e0-6dbe-7871-be2b-cd1083613bdc.20261117T002030273159Z01a1e6e0-6dc1-7217-aaff-d783029ef198');
INSERT INTO "runs" VALUES('01a1e6e0-6dc3-73cc-8b0c-99479d9817b5','01a1e6e0-6dbe-7871-be2b-cd1083613bdc','01a1e6e0-6dbe-7871-be2b-cd1083613bdc','StrOutputParser','parser',1.7948748302752559185e+09,NULL,1.79487483027531409264e+09,NULL,NULL,NULL,NULL,'{"input": {"lc": 1, "type": "constructor", "id": ["foldline", "messages", "AIMessage"], "kwargs": {"content": "Blue light is scattered more.", "response_metadata": {"model_provider": "openai", "model_name": "gpt-4o-mini"}, "id": "lc_run--01a1e6e0-6dc1-7217-aaff-d783029ef198-0", "usage_metadata": {"input_tokens": 8, "output_tokens": 2, "total_tokens": 10}, "tool_calls": [], "invalid_tool_calls": []}}}','{"output": "Blue light is scattered more."}',NULL,'{"metadata": {"thread_id": "t-1", "user_id": "ada"}}','["seq:step:3", "nightly"]','[{"name": "start", "time": "2026-11-17T00:20:30.275256+00:00"}, {"name": "end", "time": "2026-11-17T00:20:30.275314+00:00"}]','20261117T002030270609Z01a1e6e0-6dbe-7871-be2b-cd1083613bdc.20261117T002030275256Z01a1e6e0-6dc3-73cc-8b0c-99479d9817b5');
INSERT INTO "runs" VALUES('01a1e6e0-6dc3-776d-9009-c67ef6424756','01a1e6e0-6dc3-776d-9009-c67ef6424756',NULL,'fail','chain',1.79487483027547907829e+09,NULL,1.7948748302806789875e+09,NULL,NULL,NULL,'ValueError(''no such thing: größe'')

Traceback (most recent call last):
  File "/home/ada/site-packages/foldline/runnables/_trace.py", line 99, in call
    output = await runnable._once(value, run)
             ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "/home/ada/site-packages/foldline/runnables/lambda_.py", line 137, in _once
    result = await self._call(input, run)
             ^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "/home/ada/site-packages/foldline/runnables/lambda_.py", line 133, in _call
    return await run.io.call(function, input, **_functions.extras(wants, run))
           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "/home/ada/site-packages/foldline/_io/blocking.py", line 73, in call
    result = function(*args, **kwargs)
             ^^^^^^^^^^^^^^^^^^^^^^^^^
  File "/home/ada/ask.py", line 11, in fail
    def fail(x): raise ValueError("no such thing: "+x)
                 ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
ValueError: no such thing: größe
','{"input": "gr\u00f6\u00dfe"}',NULL,NULL,'{}','[]','[{"name": "start", "time": "2026-11-17T00:20:30.275479+00:00"}, {"name": "error", "time": "2026-11-17T00:20:30.280679+00:00"}]','20261117T002030275479Z01a1e6e0-6dc3-776d-9009-c67ef6424756');
CREATE TABLE tags (
    tag TEXT NOT NULL,
    run_id TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    PRIMARY KEY (tag, run_id)
) STRICT, WITHOUT ROWID;
INSERT INTO "tags" VALUES('nightly','01a1e6e0-6dbe-7871-be2b-cd1083613bdc');
INSERT INTO "tags" VALUES('nightly','01a1e6e0-6dc0-7938-9d98-c18592166c8d');
INSERT INTO "tags" VALUES('nightly','01a1e6e0-6dc1-7217-aaff-d783029ef198');
INSERT INTO "tags" VALUES('nightly','01a1e6e0-6dc3-73cc-8b0c-99479d9817b5');
INSERT INTO "tags" VALUES('seq:step:1','01a1e6e0-6dc0-7938-9d98-c18592166c8d');
INSERT INTO "tags" VALUES('seq:step:2','01a1e6e0-6dc1-7217-aaff-d783029ef198');
INSERT INTO "tags" VALUES('seq:step:3','01a1e6e0-6dc3-73cc-8b0c-99479d9817b5');
CREATE INDEX runs_by_trace ON runs (trace_id, dotted_order);
CREATE INDEX runs_by_time ON runs (start_time);
CREATE INDEX roots_by_time ON runs (start_time) WHERE parent_run_id IS NULL;
CREATE INDEX runs_by_error ON runs (start_time) WHERE error IS NOT NULL;
COMMIT;
