BEGIN TRANSACTION;
CREATE TABLE foldline_schema (kind TEXT PRIMARY KEY, version INTEGER NOT NULL);
INSERT INTO "foldline_schema" VALUES('node_results',1);
CREATE TABLE node_results (place TEXT NOT NULL, key TEXT NOT NULL, value TEXT NOT NULL, until REAL, PRIMARY KEY (place, key));
INSERT INTO "node_results" VALUES('["node"]','key','"value"',NULL);
COMMIT;
