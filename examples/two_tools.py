"""An agent with two tools on the embedded model: offline, once the model's file is there (`foldline[local]`).

The model is small: it is here to show that everything fits together, not to be clever.
"""

from foldline.agents import create_agent
from foldline.chat_models import init_chat_model

PRICES = {"apples": 3, "bread": 4, "tea": 7}


def get_price(item: str) -> str:
    """Get the price of an item in the shop."""
    price = PRICES.get(item.lower().rstrip("s") + "s", PRICES.get(item.lower()))
    return f"{item} costs {price} dollars" if price else f"there is no {item} in the shop"


def get_weather(city: str) -> str:
    """Get the current weather in a city."""
    return f"It is sunny and 21 degrees in {city}."


def main() -> None:
    """Ask two questions, one for each tool; print what happens as it happens."""
    model = init_chat_model("local:smollm2", temperature=0, max_tokens=80)
    agent = create_agent(
        model, [get_weather, get_price], system_prompt="You are a helpful assistant."
    )
    for question in ("What is the weather in Paris?", "What is the price of tea?"):
        print(f"> {question}")
        for event in agent.run_events(question, {"recursion_limit": 6}):
            data = event["params"]["data"]
            if event["method"] == "tools" and data["event"] == "tool-started":
                print(f"  calls {data['tool_name']} {data['input']}")
            elif event["method"] == "tools" and data["event"] == "tool-finished":
                print(f"  got   {data['output']}")
            elif event["method"] == "lifecycle" and data["event"] == "completed":
                print("  done")
            elif event["method"] == "updates" and data["node"] == "model":
                text = data["values"]["messages"][-1]["content"]
                print(f"  says  {text}" if text else "  says  nothing but the call")


if __name__ == "__main__":
    main()
