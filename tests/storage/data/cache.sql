BEGIN TRANSACTION;
CREATE TABLE answers (key TEXT PRIMARY KEY, value TEXT NOT NULL, kept_at REAL NOT NULL) STRICT, WITHOUT ROWID;
INSERT INTO "answers" VALUES('0fb3794a8cfd9ed0424ebe9a5bf777c90262c62e8cdec12f8c61e3a4796569a8','[{"lc": 1, "type": "constructor", "id": ["foldline", "outputs", "Generation"], "kwargs": {"text": "kept", "type": "Generation"}}]',1.79496748095000481599e+09);
CREATE TABLE foldline_schema (kind TEXT PRIMARY KEY, version INTEGER NOT NULL);
INSERT INTO "foldline_schema" VALUES('cache',1);
CREATE INDEX answers_by_age ON answers (kept_at)
    ;
COMMIT;
