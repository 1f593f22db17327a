"""What a job asks for each item: a model, a chain or embeddings."""
