"""The heroes, places and things of the stories: lists written for this project.

The lists are long, so that the model learns to follow requests.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

ANIMALS = [
    "cat", "dog", "bear", "bird", "mouse", "rabbit", "fox", "frog", "duck", "fish", "horse", "cow",
    "pig", "lion", "elephant", "monkey", "bee", "owl", "turtle", "squirrel", "hedgehog", "sheep",
    "goat", "hen", "penguin", "tiger", "wolf", "snail", "butterfly", "whale", "dragon", "giraffe",
    "zebra", "kitten", "puppy", "deer", "beaver", "badger", "mole", "crab", "dolphin", "donkey",
    "parrot", "swan", "goose", "chick", "lamb", "pony", "panda", "koala", "kangaroo", "camel",
    "crocodile", "snake", "lizard", "ant", "spider", "ladybug", "worm", "seal", "otter", "bat",
    "robin", "crow", "eagle", "peacock", "rooster", "hamster", "raccoon", "unicorn", "dinosaur",
    "ladybird", "octopus",
]  # fmt: skip
PEOPLE = [
    "girl", "boy", "king", "queen", "farmer", "robot", "princess", "prince", "pirate", "baker",
    "wizard", "witch", "knight", "giant", "fairy", "elf", "sailor", "painter", "teacher", "doctor",
    "gardener", "clown", "snowman", "ghost", "troll", "mermaid", "astronaut", "cook", "singer",
    "dancer", "grandmother", "grandfather",
]  # fmt: skip
HEROES = (*ANIMALS, *PEOPLE)
SHE_ONLY = {"girl", "queen", "princess", "hen", "cow", "witch", "fairy", "mermaid", "grandmother"}
HE_ONLY = {"boy", "king", "prince", "rooster", "grandfather", "wizard"}
NAMES = {
    "he": [
        "Tom", "Max", "Ben", "Sam", "Tim", "Leo", "Jack", "Finn", "Bob", "Oliver", "Paul", "Noah",
        "Fred", "Hugo", "Oscar", "Charlie",
    ],
    "she": [
        "Lily", "Mia", "Anna", "Lucy", "Sue", "Emma", "Daisy", "Ruby", "Molly", "Rosie", "Ella",
        "Nina", "Clara", "Zoe", "Amy", "Bella",
    ],
}  # fmt: skip
THINGS = [
    "ball", "hat", "book", "boat", "flower", "key", "apple", "star", "stone", "box", "drum", "kite",
    "shoe", "bell", "lamp", "egg", "map", "cup", "balloon", "bike", "blanket", "feather", "leaf",
    "letter", "ring", "scarf", "spoon", "train", "umbrella", "wagon", "doll", "rope", "basket",
    "candle", "crown", "coat", "clock", "coin", "bag", "button", "shell", "mirror", "pencil",
    "ladder", "whistle", "trumpet", "guitar", "pillow", "bucket", "bottle", "toy", "car",
    "necklace", "glove", "sock", "chair", "picture", "bow", "puzzle", "rocket",
]  # fmt: skip
FOODS = [
    "cake", "cookie", "pie", "soup", "apple", "bread", "cheese", "honey", "pear", "banana",
    "carrot", "pancake", "pizza", "sandwich", "berry", "muffin", "nut", "melon", "cherry",
    "strawberry",
]  # fmt: skip
MASS_FOODS = {"soup", "bread", "cheese", "honey"}
COLOURS = [
    "red", "blue", "green", "yellow", "white", "pink", "purple", "golden", "brown", "black",
    "orange", "silver",
]  # fmt: skip
PLACES = {
    "forest": "in the forest", "sea": "by the sea", "garden": "in a garden", "farm": "on a farm",
    "village": "in a small village", "castle": "in an old castle", "river": "near a river",
    "mountain": "on a mountain",
    "town": "in a big town", "meadow": "in a green meadow", "snow": "in a land of snow",
    "park": "near a park",
    "island": "on an island", "lake": "by a lake", "hill": "on a hill", "jungle": "in the jungle",
    "cave": "in a cave", "beach": "at the beach", "moon": "on the moon", "desert": "in the desert",
}  # fmt: skip
MOODS = [
    "happy", "sad", "brave", "shy", "kind", "hungry", "sleepy", "lonely", "funny", "clever", "lazy",
    "proud", "curious", "tired", "angry", "gentle",
]  # fmt: skip
SIZES = ["little", "big", "small", "tiny", "young", "old"]


@dataclass(frozen=True)
class Cast:
    """Everything that a plot can name."""

    words: dict[str, str]

    def say(self, text: str) -> str:
        said = text.format(**self.words)
        return said[:1].upper() + said[1:]


def article(noun: str) -> str:
    return f"{'an' if noun[0] in 'aeiou' and not noun.startswith('uni') else 'a'} {noun}"


def draw_cast(rng: random.Random) -> Cast:
    hero, friend = rng.sample(HEROES, 2)
    words: dict[str, str] = {
        "hero": hero,
        "friend": friend,
        "a_hero": article(hero),
        "a_friend": article(friend),
    }
    words |= _person(rng, hero, "", "")
    words |= _person(rng, friend, "2", words["name"])
    mood, size, colour = rng.choice(MOODS), rng.choice(SIZES), rng.choice(COLOURS)
    thing, place, food = rng.choice(THINGS), rng.choice(list(PLACES)), rng.choice(FOODS)
    words |= {
        "mood": mood,
        "a_mood": article(mood),
        "a_mood_hero": article(f"{mood} {hero}"),
        "a_size_hero": article(f"{size} {hero}"),
        "a_size_friend": article(f"{rng.choice(SIZES)} {friend}"),
        "colour": colour,
        "thing": thing,
        "a_thing": article(thing),
        "a_colour_thing": article(f"{colour} {thing}"),
        "place": place,
        "where": PLACES[place],
        "food": food,
        "a_food": f"some {food}" if food in MASS_FOODS else article(food),
    }
    return Cast(words)


def _person(rng: random.Random, kind: str, mark: str, taken: str) -> dict[str, str]:
    she = kind in SHE_ONLY or (kind not in HE_ONLY and rng.random() < 0.5)
    name = rng.choice([name for name in NAMES["she" if she else "he"] if name != taken])
    pronouns = ("she", "her", "her") if she else ("he", "his", "him")
    return {
        f"{key}{mark}": word
        for key, word in zip(("name", "he", "his", "him"), (name, *pronouns), strict=True)
    }
