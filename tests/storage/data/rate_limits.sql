BEGIN TRANSACTION;
CREATE TABLE foldline_rate_limits (key TEXT PRIMARY KEY, state TEXT NOT NULL);
INSERT INTO "foldline_rate_limits" VALUES('default','{"used": {"requests/86400": {"0": 1.0}}, "line": [], "kept": {}, "seen": {"machine-1": 0.0}, "hold": 0.0, "caps": {}, "bucket": 0.0, "bucket_at": null, "clock": {"now": 0.0, "monotonic": 6382.719112706, "wall": 1794967481.7758763}}');
CREATE TABLE foldline_schema (kind TEXT PRIMARY KEY, version INTEGER NOT NULL);
INSERT INTO "foldline_schema" VALUES('rate_limits',1);
COMMIT;
