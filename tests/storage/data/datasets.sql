BEGIN TRANSACTION;
CREATE TABLE cases (
        id TEXT PRIMARY KEY, dataset TEXT NOT NULL, run_id TEXT, messages TEXT NOT NULL, expected TEXT,
        added_at REAL NOT NULL
    ) STRICT;
INSERT INTO "cases" VALUES('c-1','weather',NULL,'[{"role": "user", "content": "hi"}]','hello',1.0);
CREATE TABLE foldline_schema (kind TEXT PRIMARY KEY, version INTEGER NOT NULL);
INSERT INTO "foldline_schema" VALUES('datasets',1);
CREATE TABLE results (
        id TEXT PRIMARY KEY, case_id TEXT NOT NULL REFERENCES cases (id) ON DELETE CASCADE, model TEXT NOT NULL,
        answer TEXT, error TEXT, scores TEXT NOT NULL, seconds REAL, cost REAL, run_at REAL NOT NULL
    ) STRICT;
INSERT INTO "results" VALUES('r-1','c-1','fake','hello',NULL,'{}',0.1,0.0,2.0);
CREATE INDEX cases_by_dataset ON cases (dataset, added_at);
CREATE INDEX results_by_case ON results (case_id)
    ;
COMMIT;
