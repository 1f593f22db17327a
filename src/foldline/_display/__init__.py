"""HTML views of objects for notebooks, made from plain values. Nothing here imports a class of foldline.

Text of a model, a tool or a document is escaped: none of its markup, scripts or styles is shown, and no URL that a
browser would fetch by itself.
"""
