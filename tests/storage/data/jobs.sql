BEGIN TRANSACTION;
CREATE TABLE foldline_job_items (
    id INTEGER PRIMARY KEY,
    job BIGINT NOT NULL,
    state INTEGER NOT NULL,
    attempts INTEGER NOT NULL DEFAULT 0,
    same_as BIGINT,
    part BIGINT,
    source TEXT,
    input_tokens BIGINT NOT NULL DEFAULT 0,
    output_tokens BIGINT NOT NULL DEFAULT 0,
    cost DOUBLE PRECISION,
    key TEXT,
    digest TEXT NOT NULL,
    error TEXT,
    prompt TEXT,
    input TEXT NOT NULL,
    output TEXT
);
INSERT INTO "foldline_job_items" VALUES(1099511627776,1,3,1,NULL,NULL,'live',0,0,0.0,NULL,'dbea35bc7f21752194bf49390c6f6a35',NULL,NULL,'"a"','"A"');
INSERT INTO "foldline_job_items" VALUES(1099511627777,1,3,1,NULL,NULL,'live',0,0,0.0,NULL,'2e85c584523161d45710ece8d438385f',NULL,NULL,'"b"','"B"');
INSERT INTO "foldline_job_items" VALUES(1099511627778,1,3,1,NULL,NULL,'live',0,0,0.0,NULL,'b2b72e9a1d5e40f6bbab23fba07adf70',NULL,NULL,'"c"','"C"');
CREATE TABLE foldline_job_parts (
    id INTEGER PRIMARY KEY AUTOINCREMENT, job BIGINT NOT NULL, tag TEXT NOT NULL UNIQUE, provider_id TEXT, size BIGINT NOT NULL,
    made_at DOUBLE PRECISION NOT NULL, is_ended INTEGER NOT NULL DEFAULT 0, outcome TEXT
);
CREATE TABLE foldline_job_rejects (
    id INTEGER PRIMARY KEY AUTOINCREMENT, job BIGINT NOT NULL, number BIGINT NOT NULL, place TEXT NOT NULL, reason TEXT NOT NULL,
    line TEXT NOT NULL
);
CREATE TABLE foldline_jobs (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL UNIQUE,
    tag TEXT NOT NULL,
    target TEXT NOT NULL,
    description TEXT NOT NULL,
    definition TEXT,
    rows_read BIGINT NOT NULL DEFAULT 0,
    is_read INTEGER NOT NULL DEFAULT 0,
    is_cancelled INTEGER NOT NULL DEFAULT 0,
    items BIGINT NOT NULL DEFAULT 0,
    done BIGINT NOT NULL DEFAULT 0,
    failed BIGINT NOT NULL DEFAULT 0,
    cancelled BIGINT NOT NULL DEFAULT 0,
    copies BIGINT NOT NULL DEFAULT 0,
    rejected BIGINT NOT NULL DEFAULT 0,
    repeated_calls BIGINT NOT NULL DEFAULT 0,
    missing BIGINT NOT NULL DEFAULT 0,
    parts BIGINT NOT NULL DEFAULT 0,
    input_tokens BIGINT NOT NULL DEFAULT 0,
    output_tokens BIGINT NOT NULL DEFAULT 0,
    known_cost DOUBLE PRECISION NOT NULL DEFAULT 0,
    unpriced BIGINT NOT NULL DEFAULT 0
);
INSERT INTO "foldline_jobs" VALUES(1,'shout','9de031d960f0401ab4c1c91322adfe68','1a0cdc6f1dee4dadd14afa4ce923c857','upper',NULL,3,1,0,3,3,0,0,0,0,0,0,0,0,0,0.0,0);
CREATE TABLE foldline_schema (kind TEXT PRIMARY KEY, version INTEGER NOT NULL);
INSERT INTO "foldline_schema" VALUES('jobs',1);
CREATE UNIQUE INDEX foldline_job_keys ON foldline_job_items (job, key) WHERE key IS NOT NULL;
CREATE INDEX foldline_job_digests ON foldline_job_items (job, digest) WHERE same_as IS NULL;
CREATE INDEX foldline_job_open ON foldline_job_items (job, state, id) WHERE state < 3;
CREATE INDEX foldline_job_failed ON foldline_job_items (job, id) WHERE state = 4;
CREATE INDEX foldline_job_copies ON foldline_job_items (job, id) WHERE state = 5;
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('foldline_jobs',1);
COMMIT;
