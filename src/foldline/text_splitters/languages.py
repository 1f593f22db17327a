"""Separators for the source text of languages."""

from __future__ import annotations

from enum import Enum

__all__ = [
    "Language",
]


class Language(str, Enum):  # noqa: UP042  LangChain's values format as their names do in a str Enum
    """Languages with separators."""

    CPP = "cpp"
    GO = "go"
    JAVA = "java"
    KOTLIN = "kotlin"
    JS = "js"
    TS = "ts"
    PHP = "php"
    PROTO = "proto"
    PYTHON = "python"
    R = "r"
    RST = "rst"
    RUBY = "ruby"
    RUST = "rust"
    SCALA = "scala"
    SWIFT = "swift"
    MARKDOWN = "markdown"
    LATEX = "latex"
    HTML = "html"
    SOL = "sol"
    CSHARP = "csharp"
    COBOL = "cobol"
    C = "c"
    LUA = "lua"
    PERL = "perl"
    HASKELL = "haskell"
    ELIXIR = "elixir"
    POWERSHELL = "powershell"
    VISUALBASIC6 = "visualbasic6"


ANYWHERE = ["\n\n", "\n", " ", ""]

LINE_STARTS: dict[Language, str] = {
    Language.C: "class void int float double if for while switch case",
    Language.CPP: "class void int float double if for while switch case",
    Language.CSHARP: "interface enum delegate event class abstract public protected private static return if "
    "continue for foreach while switch break case else try throw finally catch",
    Language.ELIXIR: "def defp defmodule defprotocol defmacro defmacrop if unless case cond with for do",
    Language.GO: "func var const type if for switch case",
    Language.JAVA: "class public protected private static if for while switch case",
    Language.JS: "function const let var class if for while switch case default",
    Language.KOTLIN: "class public protected private internal companion fun val var if for while when else",
    Language.LUA: "local function if for while repeat",
    Language.PERL: "package use sub my our if unless for foreach while until",
    Language.PHP: "function class if foreach while do switch case",
    Language.POWERSHELL: "function param if foreach for while switch class try catch finally",
    Language.PROTO: "message service enum option import syntax",
    Language.RUBY: "def class if unless while for do begin rescue",
    Language.RUST: "fn const let if while for loop match",
    Language.SCALA: "class object def val var if for while match case",
    Language.SWIFT: "func class struct enum if for while do switch case",
    Language.TS: "enum interface namespace type class function const let var if for while switch case default",
}
"""Keywords that begin a line of a new definition, the larger ones first."""

SEPARATORS: dict[Language, list[str]] = {
    **{
        language: [*(f"\n{keyword} " for keyword in keywords.split()), *ANYWHERE]
        for language, keywords in LINE_STARTS.items()
    },
    Language.PYTHON: ["\nclass ", "\ndef ", "\n\tdef ", *ANYWHERE],
    Language.SOL: [
        *(
            f"\n{word} "
            for word in [
                "pragma",
                "using",
                "contract",
                "interface",
                "library",
                "constructor",
                "type",
                "function",
                "event",
                "modifier",
                "error",
                "struct",
                "enum",
                "if",
                "for",
                "while",
                "do while",
                "assembly",
            ]
        ),
        *ANYWHERE,
    ],
    Language.R: [
        *("\nfunction ", r"\nsetClass\(", r"\nsetMethod\(", r"\nsetGeneric\("),
        *(f"\n{word} " for word in ["if", "else", "for", "while", "repeat"]),
        *(r"\nlibrary\(", r"\nrequire\("),
        *ANYWHERE,
    ],
    Language.HASKELL: [
        *("\nmain :: ", "\nmain = ", "\nlet ", "\nin ", "\ndo ", "\nwhere ", "\n:: ", "\n= "),
        *("\ndata ", "\nnewtype ", "\ntype ", "\nmodule ", "\nimport ", "\nqualified "),
        *("\nimport qualified ", "\nclass ", "\ninstance ", "\ncase ", r"\n\| ", r"\n= \{", "\n, "),
        *ANYWHERE,
    ],
    Language.COBOL: [
        *(
            f"\n{name} DIVISION\\."
            for name in ("IDENTIFICATION", "ENVIRONMENT", "DATA", "PROCEDURE")
        ),
        *(
            f"\n{name} SECTION\\."
            for name in ("WORKING-STORAGE", "LINKAGE", "FILE", "INPUT-OUTPUT")
        ),
        *(
            f"\n{word} "
            for word in [
                "OPEN",
                "CLOSE",
                "READ",
                "WRITE",
                "IF",
                "ELSE",
                "MOVE",
                "PERFORM",
                "UNTIL",
                "VARYING",
                "ACCEPT",
                "DISPLAY",
            ]
        ),
        "\nSTOP RUN\\.",
        *ANYWHERE[1:],
    ],
    Language.VISUALBASIC6: [
        *(
            rf"\n(?!End\s)(?:Public|Private|Friend|Global|Static)\s+{kind}\s+"
            for kind in ("Sub", "Function", "Property\\s+(?:Get|Let|Set)", "Type", "Enum")
        ),
        *(r"\n(?!End\s)If\s+", r"\nElseIf\s+", r"\nElse\s+", r"\nSelect\s+Case\s+", r"\nCase\s+"),
        *(r"\nFor\s+", r"\nDo\s+", r"\nWhile\s+", r"\nWith\s+"),
        *ANYWHERE,
    ],
    Language.RST: ["\n=+\n", "\n-+\n", "\n\\*+\n", "\n\n\\.\\. *\n\n", *ANYWHERE],
    Language.MARKDOWN: [
        *("\n#{1,6} ", "```\n", "\n\\*\\*\\*+\n", "\n---+\n", "\n___+\n"),
        *ANYWHERE,
    ],
    Language.LATEX: [
        *(rf"\n\\{name}\{{" for name in ("chapter", "section", "subsection", "subsubsection")),
        *(
            rf"\n\\begin\{{{name}\}}"
            for name in [
                "enumerate",
                "itemize",
                "description",
                "list",
                "quote",
                "quotation",
                "verse",
                "verbatim",
                "align",
            ]
        ),
        *(r"\$\$", r"\$"),
        *ANYWHERE[2:],
    ],
    Language.HTML: [
        f"<{tag}"
        for tag in [
            "body",
            "div",
            "p",
            "br",
            "li",
            "h1",
            "h2",
            "h3",
            "h4",
            "h5",
            "h6",
            "span",
            "table",
            "tr",
            "td",
            "th",
            "ul",
            "ol",
            "header",
            "footer",
            "nav",
            "head",
            "style",
            "script",
            "meta",
            "title",
        ]
    ]
    + [""],
}
"""Language -> regular expressions, the coarsest first."""
