"""The claims of the documents that foldline follows, each with the tests that show it, and the page made of them."""
