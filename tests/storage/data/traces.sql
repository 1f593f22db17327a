BEGIN TRANSACTION;
CREATE TABLE foldline_schema (kind TEXT PRIMARY KEY, version INTEGER NOT NULL);
INSERT INTO "foldline_schema" VALUES('traces',2);
CREATE TABLE forms (id TEXT PRIMARY KEY, body TEXT NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE indexed_to (seq INTEGER NOT NULL) STRICT;
INSERT INTO "indexed_to" VALUES(1);
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
INSERT INTO "runs" VALUES(1,'01a1ec66-2e31-788e-8655-73a85326c975','01a1ec66-2e31-788e-8655-73a85326c975',NULL,'shout','chain',1.79496748190559315678e+09,NULL,1.79496748190577363971e+09,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'t-1',NULL,NULL,'hi','HI',NULL,NULL,NULL,NULL,NULL,'{"metadata": {"thread_id": "t-1"}}','{"input": "hi"}','{"output": "HI"}',NULL);
CREATE TABLE scores (
    id TEXT PRIMARY KEY,
    run_id TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    name TEXT NOT NULL,
    value REAL,
    comment TEXT,
    author TEXT,
    time REAL NOT NULL
) STRICT;
CREATE TABLE tags (
    tag TEXT NOT NULL,
    run_id TEXT NOT NULL,
    PRIMARY KEY (tag, run_id)
) STRICT, WITHOUT ROWID;
CREATE TABLE unindexed (seq INTEGER PRIMARY KEY) STRICT;
CREATE VIRTUAL TABLE words USING fts5 (text, content='', tokenize='unicode61 remove_diacritics 2');
DELETE FROM words_config;
DELETE FROM words_data;
DELETE FROM words_docsize;
DELETE FROM words_idx;
INSERT INTO "words_config" VALUES('version',4);
INSERT INTO "words_data" VALUES(1,X'0103');
INSERT INTO "words_data" VALUES(10,X'000000000101010001010101');
INSERT INTO "words_data" VALUES(137438953473,X'000000160330686901040303010573686F75740102020408');
INSERT INTO "words_docsize" VALUES(1,X'03');
INSERT INTO "words_idx" VALUES(1,X'',2);
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
COMMIT;
