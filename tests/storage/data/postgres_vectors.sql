CREATE TABLE public.foldline_vector_collections (
    name text NOT NULL,
    dimension integer NOT NULL
);
CREATE TABLE public.foldline_vectors (
    place bigint NOT NULL,
    collection text NOT NULL,
    id text NOT NULL,
    content text NOT NULL,
    metadata jsonb NOT NULL,
    norm double precision NOT NULL,
    embedding real[] NOT NULL
);
ALTER TABLE public.foldline_vectors ALTER COLUMN place ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.foldline_vectors_place_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
INSERT INTO public.foldline_vector_collections VALUES ('documents', 4);
INSERT INTO public.foldline_vectors OVERRIDING SYSTEM VALUE VALUES (1, 'documents', 'd1', 'plums are blue', '{"n": 1}', 2.3641512293905227, '{-2.1775694,-0.43082675,-0.8104148,-0.07084324}');
INSERT INTO public.foldline_vectors OVERRIDING SYSTEM VALUE VALUES (2, 'documents', 'd2', 'snow is white', '{"n": 2}', 1.081306562575419, '{0.49385843,-0.39351386,-0.86672044,0.13881737}');
SELECT pg_catalog.setval('public.foldline_vectors_place_seq', 2, true);
ALTER TABLE ONLY public.foldline_vector_collections
    ADD CONSTRAINT foldline_vector_collections_pkey PRIMARY KEY (name);
ALTER TABLE ONLY public.foldline_vectors
    ADD CONSTRAINT foldline_vectors_pkey PRIMARY KEY (collection, id);
