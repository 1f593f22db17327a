CREATE SCHEMA foldline_traces;
SET search_path TO foldline_traces;
CREATE TABLE runs (
    seq BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    trace_id TEXT NOT NULL,
    parent_run_id TEXT,
    name TEXT NOT NULL,
    run_type TEXT NOT NULL,
    start_time DOUBLE PRECISION NOT NULL,
    first_token_time DOUBLE PRECISION,
    end_time DOUBLE PRECISION,
    provider TEXT,
    model TEXT,
    input_tokens BIGINT,
    output_tokens BIGINT,
    total_tokens BIGINT,
    cost DOUBLE PRECISION,
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
);
CREATE INDEX runs_by_trace ON runs (trace_id);
CREATE INDEX runs_by_time ON runs (start_time);
CREATE INDEX roots_by_time ON runs (start_time) WHERE parent_run_id IS NULL;
CREATE INDEX runs_by_error ON runs (start_time) WHERE error_class IS NOT NULL;
CREATE INDEX calls_by_model ON runs (model, start_time) INCLUDE
    (end_time, first_token_time, input_tokens, output_tokens, cost, error_class) WHERE model IS NOT NULL;
CREATE INDEX runs_by_thread ON runs (thread_id, start_time) WHERE thread_id IS NOT NULL;
CREATE INDEX runs_by_session ON runs (session_id, start_time) WHERE session_id IS NOT NULL;
CREATE INDEX runs_by_user ON runs (user_id, start_time) WHERE user_id IS NOT NULL;
CREATE INDEX runs_under_way ON runs (start_time) WHERE end_time IS NULL;
CREATE TABLE tags (tag TEXT NOT NULL, run_id TEXT NOT NULL, PRIMARY KEY (tag, run_id));
CREATE TABLE forms (id TEXT PRIMARY KEY, body TEXT NOT NULL);
CREATE TABLE scores (
    id TEXT PRIMARY KEY,
    run_id TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    name TEXT NOT NULL,
    value DOUBLE PRECISION,
    comment TEXT,
    author TEXT,
    time DOUBLE PRECISION NOT NULL
);
CREATE INDEX scores_by_run ON scores (run_id);
CREATE TABLE unindexed (seq BIGINT PRIMARY KEY);
CREATE TABLE indexed_to (seq BIGINT NOT NULL);
INSERT INTO indexed_to VALUES (0);
CREATE TABLE words (seq BIGINT PRIMARY KEY, lexemes TSVECTOR NOT NULL);
CREATE INDEX words_by_lexeme ON words USING gin (lexemes);
CREATE TABLE foldline_schema (version INTEGER NOT NULL);
INSERT INTO foldline_schema VALUES (2);
