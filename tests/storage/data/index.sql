BEGIN TRANSACTION;
CREATE TABLE foldline_schema (kind TEXT PRIMARY KEY, version INTEGER NOT NULL);
INSERT INTO "foldline_schema" VALUES('index',1);
CREATE TABLE records (
        namespace BLOB NOT NULL, key BLOB NOT NULL, source BLOB, seen REAL NOT NULL,
        PRIMARY KEY (namespace, key)
    ) STRICT, WITHOUT ROWID;
INSERT INTO "records" VALUES(X'646F6373',X'6F6E65',X'67',1.79496748106099748617e+09);
INSERT INTO "records" VALUES(X'646F6373',X'74776F',X'67',1.79496748106099748617e+09);
CREATE INDEX records_by_age ON records (namespace, seen);
CREATE INDEX records_by_source ON records (namespace, source, seen)
    ;
COMMIT;
