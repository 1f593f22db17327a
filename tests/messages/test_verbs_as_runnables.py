"""Every verb of messages, called without messages, is a runnable that will be given them."""

from __future__ import annotations

import pytest

from foldline.exceptions import UsageError
from foldline.messages import (
    HumanMessage,
    convert_to_messages,
    convert_to_openai_messages,
    count_tokens_approximately,
    filter_messages,
    get_buffer_string,
    merge_message_runs,
    messages_from_dict,
    messages_to_dict,
    trim_messages,
)

GIVEN = [HumanMessage("hello there")]

VERBS = {
    "convert_to_messages": (convert_to_messages(), GIVEN),
    "convert_to_openai_messages": (convert_to_openai_messages(), GIVEN),
    "count_tokens_approximately": (count_tokens_approximately(chars_per_token=2.0), GIVEN),
    "filter_messages": (filter_messages(include_types=["human"]), GIVEN),
    "get_buffer_string": (get_buffer_string(human_prefix="Me"), GIVEN),
    "merge_message_runs": (merge_message_runs(), GIVEN),
    "messages_from_dict": (messages_from_dict(), messages_to_dict(GIVEN)),
    "messages_to_dict": (messages_to_dict(), GIVEN),
    "trim_messages": (trim_messages(max_tokens=10, token_counter=len), GIVEN),
}
EXPECTED = {
    "convert_to_messages": GIVEN,
    "convert_to_openai_messages": [{"role": "user", "content": "hello there"}],
    "count_tokens_approximately": count_tokens_approximately(GIVEN, chars_per_token=2.0),
    "filter_messages": GIVEN,
    "get_buffer_string": "Me: hello there",
    "merge_message_runs": GIVEN,
    "messages_from_dict": GIVEN,
    "messages_to_dict": messages_to_dict(GIVEN),
    "trim_messages": GIVEN,
}


@pytest.mark.parametrize("name", VERBS)
def test_a_verb_without_messages_is_a_step_of_a_chain(call, name):
    verb, messages = VERBS[name]
    assert verb.get_name() == name
    assert call.invoke(verb, messages) == EXPECTED[name]


def test_none_is_no_messages_and_not_a_verb():
    with pytest.raises(UsageError):
        convert_to_messages(None)
