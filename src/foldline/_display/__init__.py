"""How objects show themselves in notebooks: safe HTML made of plain values. Nothing here knows a class of foldline.

The rule of the room: whatever comes from a model, a tool or a document is text. It is escaped; no markup of its own, no
script, no style and no address that a browser would fetch by itself comes through.
"""
