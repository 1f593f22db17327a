BEGIN TRANSACTION;
CREATE TABLE foldline_schema (kind TEXT PRIMARY KEY, version INTEGER NOT NULL);
INSERT INTO "foldline_schema" VALUES('items',2);
CREATE TABLE items (namespace TEXT NOT NULL, key TEXT NOT NULL, value TEXT NOT NULL, created_at TEXT NOT NULL, updated_at TEXT NOT NULL, until TEXT, vectors TEXT, ttl REAL, PRIMARY KEY (namespace, key)) WITHOUT ROWID;
INSERT INTO "items" VALUES('usersada','likes','{"food": "plums"}','2026-11-18T02:04:41.119868+00:00','2026-11-18T02:04:41.119868+00:00',NULL,NULL,NULL);
COMMIT;
