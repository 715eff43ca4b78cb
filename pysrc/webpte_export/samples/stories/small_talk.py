"""Short exchanges for training besides stories: (message, answer)."""

from __future__ import annotations

import random

SOUNDS = {
    "cat": "meow", "dog": "woof", "cow": "moo", "sheep": "baa", "duck": "quack", "pig": "oink",
    "hen": "cluck",
    "bee": "buzz", "owl": "hoo", "lion": "roar", "frog": "croak", "horse": "neigh",
    "mouse": "squeak", "snake": "hiss",
}  # fmt: skip
COLOURS = {
    "the sky": "blue", "grass": "green", "the sun": "yellow", "snow": "white", "a banana": "yellow",
    "blood": "red",
    "a frog": "green", "an orange": "orange", "a carrot": "orange", "milk": "white",
    "coal": "black", "a leaf": "green",
    "chocolate": "brown", "a strawberry": "red", "the night": "black", "a lemon": "yellow",
}  # fmt: skip
OPPOSITES = (
    "big small", "hot cold", "happy sad", "day night", "up down", "fast slow", "old young",
    "wet dry", "good bad",
    "high low", "full empty", "open closed", "light dark", "loud quiet", "hard soft", "long short",
    "left right",
)  # fmt: skip
HOMES = {
    "fish": "in the water", "birds": "in nests", "bees": "in a hive", "bears": "in the forest",
    "lions": "in Africa",
    "penguins": "in the snow", "cows": "on a farm", "whales": "in the sea", "foxes": "in a den",
    "frogs": "near ponds",
    "rabbits": "in burrows", "horses": "in stables", "owls": "in trees", "pigs": "on a farm",
}  # fmt: skip
LEGS = {
    "cat": "four",
    "dog": "four",
    "bird": "two",
    "bee": "six",
    "horse": "four",
    "spider": "eight",
    "fish": "no",
}
NUMBERS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]
DAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
CHAT = (
    (("Hello.", "Hello!", "Hi.", "Hi!", "Hey!", "Hello, how are you?", "Good morning!"),
     ("Hello! Shall I tell you a story?",
      "Hi! I am glad that you are here. Would you like a story?")),
    (("How are you?", "How are you today?"), ("I am very well, thank you! Would you like a story?",
     )),
    (("What is your name?", "Who are you?", "What are you?"),
     ("I am a very small language model. I run inside your browser, and I like to tell stories.",)),
    (("What can you do?", "Help!", "What can I ask?", "What do you know?"),
     ('I can tell little stories. Ask me: "Tell me a story about a cat and a ball."',)),
    (("Thank you.", "Thank you!", "Thanks!", "Thanks.", "That was nice.", "I like it."),
     ("You are welcome! Would you like another story?",)),
    (("Bye.", "Goodbye.", "Goodbye!", "Bye!", "Good night.", "Good night!"),
     ("Goodbye! Come back soon.",)),
    (("Do you like stories?", "What do you like?"), ("Yes, I love stories! Shall I tell you one?",
     )),
    (("Are you a person?", "Are you human?", "Are you real?"),
     ("No, I am a very small computer program that writes stories.",)),
    (("How big are you?", "How small are you?"),
     ("I am tiny. I have only about one million numbers inside.",)),
)  # fmt: skip


Fact = tuple[tuple[str, ...], str]  # ways to ask, the answer


def _facts() -> list[Fact]:
    facts: list[Fact] = []
    for animal, sound in SOUNDS.items():
        one = f"{'an' if animal == 'owl' else 'a'} {animal}"
        asked = (f"What does {one} say?", f"What sound does {one} make?")
        facts.append((asked, f"{one.capitalize()} says {sound}!"))
    for thing, colour in COLOURS.items():
        asked = (f"What colour is {thing}?", f"What color is {thing}?")
        facts.append((asked, f"{thing[0].upper()}{thing[1:]} is {colour}."))
    for pair in OPPOSITES:
        for word, other in (pair.split(), pair.split()[::-1]):
            answer = f"The opposite of {word} is {other}."
            facts.append(((f"What is the opposite of {word}?",), answer))
    for animals, home in HOMES.items():
        facts.append(((f"Where do {animals} live?",), f"{animals.capitalize()} live {home}."))
    for animal, legs in LEGS.items():
        facts.append(((f"How many legs does a {animal} have?",), f"A {animal} has {legs} legs."))
    facts += [_sum(a, b) for a in range(6) for b in range(6)]
    for day, following in zip(DAYS, DAYS[1:] + DAYS[:1], strict=True):
        facts.append(((f"What day comes after {day}?",), f"After {day} comes {following}."))
    counted = ", ".join(NUMBERS[1:]).capitalize() + "!"
    facts.append((("Can you count?", "Count to ten.", "Count to ten!"), counted))
    return facts


def _sum(a: int, b: int) -> Fact:
    words = f"{NUMBERS[a]} plus {NUMBERS[b]}"
    asked = (f"What is {words}?", f"What is {a} plus {b}?", f"What is {a} + {b}?")
    return asked, f"{words.capitalize()} is {NUMBERS[a + b]}."


FACTS = _facts()


def draw_exchange(rng: random.Random) -> tuple[str, str]:
    if rng.random() < 0.4:
        said, answers = rng.choice(CHAT)
        return rng.choice(said), rng.choice(answers)
    questions, answer = rng.choice(FACTS)
    return rng.choice(questions), answer
