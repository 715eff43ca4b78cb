"""Little stories, put together from beats.

A plot is a row of beats, a beat a few wordings ("" leaves the beat out).
"""

from __future__ import annotations

import random

from webpte_export.samples.stories.words import Cast, draw_cast

Beat = tuple[str, ...]

OPENING: Beat = (
    "Once upon a time, there was {a_size_hero} named {name}. {name} lived {where}.",
    "Once upon a time, there was {a_mood_hero} named {name}. {he} lived {where}.",
    "Once there was {a_mood_hero} who lived {where}. {his} name was {name}.",
    "{name} was {a_size_hero}. {he} lived {where}.",
    "There once was {a_size_hero} named {name} who lived {where}.",
)
MEETING: Beat = (
    "Then {he} met {a_friend} named {name2}.",
    "Just then, {a_size_friend} came by. {his2} name was {name2}.",
    "On the way, {name} met {name2} the {friend}.",
    'Then {a_size_friend} came along. "Hello, I am {name2}," said the {friend}.',
)
WHY_SAD: Beat = (
    '"Why are you sad?" asked {name2}.',
    '"What is wrong?" {name2} asked.',
    '{name2} saw that {name} was sad. "Can I help you?" {he2} asked.',
    '"Oh dear, why do you cry?" said {name2}.',
)
THANKS: Beat = (
    '"Thank you, {name2}!" said {name}.',
    '{name} gave {name2} a big hug. "Thank you so much!" {he} said.',
    '"You are a good friend," said {name}.',
    '{name} jumped up and down. "Hooray!" {he} shouted.',
)
ENDING: Beat = (
    "From that day on, {name} and {name2} were best friends.",
    "They laughed and played until the sun went down.",
    "{name} went home with a big smile.",
    "That night, {name} slept very well and had a sweet dream.",
    "And they lived happily ever after.",
    "After that, they met every day and had a lot of fun.",
    "Then they sat down together and looked at the stars.",
    "{name} was the happiest {hero} {where}.",
    "They were tired but very happy.",
)
LOST: tuple[Beat, ...] = (
    ("{name} had {a_colour_thing}. {he} loved it very much.",
     "{his} favorite thing was {a_colour_thing}.",
     "For {his} birthday, {name} got {a_colour_thing}. {he} took it everywhere."),
    ("One day, the {thing} was gone!", "One morning, {name} could not find the {thing}.",
     "But one windy day, {name} lost the {thing}."),
    ("{he} looked under the bed and behind the door, but it was not there.",
     "{he} looked here and there, but {he} could not find it.",
     "{name} looked everywhere. {he} began to cry.", "{name} was very sad."),
    MEETING, WHY_SAD,
    ('"I lost my {colour} {thing}," said {name}.', '"I can not find my {thing}," {name} cried.'),
    ('"Do not worry. We will look for it together," said {name2}.',
     '"Let us look together!" said the {friend}.'),
    ("They looked in the tall grass. They looked behind the trees.", "They walked and walked.",
     "They looked up and they looked down.", ""),
    ("At last, they saw something {colour} under a bush. It was the {thing}!",
     "Then {name2} saw it. The {thing} was on top of a tree!",
     "Suddenly {name} saw the {thing} near the water. \"There it is!\" {he} said.",
     "The {thing} was in an old box all the time!"),
    THANKS,
)  # fmt: skip
FOUND: tuple[Beat, ...] = (
    ("One day, {name} found {a_colour_thing} on the ground.",
     "One morning, {he} saw {a_colour_thing} under a tree.",
     "One day, {name} went for a walk and found {a_colour_thing}."),
    ('"What a nice {thing}! Whose is it?" {he} said.',
     '"Oh, how pretty! But it is not mine," said {name}.', "{name} picked it up and looked at it."),
    ("{he} wanted to keep it.", "{name} put it in {his} bag.",
     "{he} showed it to everyone, but nobody knew whose it was.", ""),
    MEETING,
    ("{name2} was crying.", "{name2} looked very sad.", "{name2} was looking for something."),
    ('"I lost my {thing}," said {name2}. "It was {colour}."',
     '"My {colour} {thing} is gone," {he2} said.'),
    ("{name} thought about it. {he} knew what was right.",
     "{name} wanted to keep the {thing}, but {he} was kind.", ""),
    ('"Here it is!" said {name} and gave the {thing} back.',
     '"Look, I found it for you," said {name}.'),
    ('"Oh, thank you!" said {name2}. "You are so kind."',
     "{name2} was so happy that {he2} danced."),
    ("Then they shared {a_food}.", "{name2} gave {name} {a_food}.",
     "Then they played with the {thing} together."),
)  # fmt: skip
SHARING: tuple[Beat, ...] = (
    ("One day, {name} got {a_colour_thing}.", "{name} had a new {thing}. It was {colour}.",
     "One day, {name} bought {a_colour_thing} at the market."),
    MEETING,
    ('"May I play with your {thing}?" asked {name2}.',
     '"What a nice {thing}! Can I have it for a while?" said the {friend}.'),
    ('"No! It is mine," said {name}.', '"No, I do not want to share," said {name}.'),
    ("{name2} was sad and went away.", "The {friend} began to cry and walked home."),
    ("{name} played alone, but it was no fun.",
     "{name} sat alone with the {thing}. It was very quiet.", "Then {name} felt bad."),
    ("{he} thought of {name2}.", '"I was not nice," {he} said.', ""),
    ("So {he} ran after {name2}.", "So {name} went to the house of the {friend}.",
     "The next day, {name} looked for {name2}."),
    ('"I am sorry. Let us play together," said {name}.',
     '"Please play with me. We can share the {thing}," {he} said.'),
    ("{name2} smiled. They took turns and had so much fun.",
     "They played with the {thing} all day long.", '"Yes, please!" said {name2}.'),
    ("{name} learned that it is good to share.", "Sharing was much better than playing alone.", ""),
)  # fmt: skip
LONELY: tuple[Beat, ...] = (
    ("{name} was lonely. {he} had no friends.", "{name} wanted a friend to play with.",
     "{he} had nobody to play with."),
    ("One day, {he} went out to find a friend.", "One sunny day, {name} went for a walk.",
     '"I will find a friend today," {he} said.'),
    ("First {he} asked a butterfly, but the butterfly flew away.",
     "First {he} asked the sun, but the sun only smiled.",
     "First {he} asked a stone, but the stone said nothing.",
     "First {he} asked a bird, but the bird was too busy."),
    ("Then {name} heard a little voice behind {a_colour_thing}.",
     "Then {he} saw someone sitting next to {a_colour_thing}.",
     "Then {he} heard someone cry near the {place}."),
    ("It was {a_size_friend} named {name2}.", "It was {name2}, {a_size_friend}."),
    ('"I have no friends," said {name2}.', '"I am all alone," the {friend} said.',
     '"I am too shy to play with the others," said {name2}.'),
    ('"I can be your friend!" said {name}.', '"Me too. Let us be friends!" said {name}.'),
    ("They played hide and seek.", "They sang a song together.",
     "They ran up the hill and rolled down again.", "They played with the {thing}."),
    ("Now {name} was not lonely any more.", "It was the best day ever.", ""),
)  # fmt: skip
AFRAID: tuple[Beat, ...] = (
    ("{name} was afraid of the dark.", "{name} was afraid of water.",
     "{name} was afraid of thunder.", "{name} was afraid of high places."),
    ("All the others laughed at {him}.", "{he} never told anyone about it.", ""),
    ("One night, there was a big storm.", "One evening, {name} heard a cry.",
     "One day, something bad happened."),
    ('"Help! Help!" called {name2} the {friend}.', "{name2} the {friend} was in trouble.",
     '"Please help me!" someone called. It was {name2} the {friend}.'),
    ("{name2} was stuck in a deep hole.", "{name2} was stuck in a tall tree.",
     "{name2} had hurt {his2} leg and could not walk.", "{name2} had lost the way home."),
    ("{name} was very scared, but {he} wanted to help.",
     "{his} heart beat fast. But {he} did not run away.", '"I must be brave," {name} said.'),
    ("{he} took {a_colour_thing} and went out.", "{he} took a deep breath and ran.",
     "{name} closed {his} eyes and counted to three. Then {he} went."),
    ("{he} held {name2} and pulled and pulled.", "Step by step, {he} came closer.", ""),
    ("At last, {name2} was safe.", "Soon {name2} was safe and sound.",
     "And it worked! {name2} was safe."),
    ('"You are so brave!" said {name2}.', '"Thank you, {name}. You saved me!" said the {friend}.'),
    ("Now {name} was not afraid any more.", "{name} was very proud.", ""),
)  # fmt: skip
HUNGRY: tuple[Beat, ...] = (
    ("One day, {name} was very hungry.", "{name} woke up and was so hungry.",
     "One morning, there was nothing to eat in the house."),
    ("{he} wanted to eat {a_food}.", '"I want {a_food}," {he} said.', "{he} dreamed of {a_food}."),
    ("{he} looked in the kitchen, but there was nothing.",
     "So {he} went to the market, but it was closed.",
     "{name} looked in the {place}, but {he} found only {a_thing}.", ""),
    MEETING,
    ('"Do you have {a_food} for me?" asked {name}.', '"I am so hungry," said {name}.'),
    ('"No, but we can make it together," said {name2}.',
     '"No, but I know where we can find it," said the {friend}.',
     '"No, but I can help you," said {name2}.'),
    ("They worked all morning.", "They took a big pot and {a_colour_thing}.",
     "They mixed and they stirred and they sang."),
    ("It smelled so good!", "Soon everything was ready.", "After a while, it was done."),
    ("They ate and ate until they were full.", "{name} took a big bite. \"Yummy!\" {he} said.",
     "They shared it, and it was the best food in the world."),
    THANKS,
)  # fmt: skip
WAY_HOME: tuple[Beat, ...] = (
    ("One day, {name} went for a long walk.",
     "One day, {name} followed {a_colour_thing} that flew in the wind.",
     "One day, {name} ran after a butterfly."),
    ("{he} walked too far, and it got dark.", "Soon {he} did not know where {he} was.",
     "{he} walked and walked. Then {he} was lost."),
    ('"Where is my home?" {name} cried.', "{name} sat down and began to cry.",
     "It was cold, and {name} was afraid."),
    MEETING, WHY_SAD,
    ('"I am lost," said {name}. "I want to go home."',
     '"I do not know the way home," said {name}.'),
    ('"Come with me. I know the way," said {name2}.',
     '"Do not be afraid. The stars will show us the way," said the {friend}.',
     '"Take my {thing}. It will give us light," said {name2}.'),
    ("They went over the hill and along the river.", "They walked hand in hand.",
     "They sang a song so that they were not afraid.", ""),
    ("Then {name} saw a light. It was {his} house!", "At last, they came to the house of {name}.",
     '"There is my home!" {name} shouted.'),
    ("{his} mother was so happy to see {him}.", "{his} mother gave them {a_food}.",
     "{his} father hugged them both.", ""),
    THANKS,
)  # fmt: skip
BUILDING: tuple[Beat, ...] = (
    ("One day, {name} wanted to build a house.", "One day, {name} wanted to build a boat.",
     "One day, {name} wanted to build a tower of stones.",
     "One day, {name} wanted to build a bridge over the river."),
    ("{he} took some wood and {a_colour_thing}.", "{he} worked all day long.",
     "{he} had a good plan."),
    ("But it fell down.", "But the wind blew it away.", "But in the night, it broke."),
    ("{name} tried again, and it fell down again.",
     "{name} was angry. \"I can not do it!\" {he} said.", "{name} was sad and wanted to give up."),
    MEETING,
    ('"I can help you," said {name2}. "Two are better than one."',
     '"Let us try it together," said the {friend}.', '"Do not give up," said {name2}.'),
    ("{name2} held the wood, and {name} used the {thing}.",
     "{name2} was very strong, and {name} was very clever.", "They worked slowly and with care."),
    ("In the evening, it was ready.", "After three days, it was ready.",
     "This time, it did not fall."),
    ("It was big and beautiful.", "Everyone came to look at it.", "They painted it {colour}."),
    THANKS,
)  # fmt: skip
LEARNING: tuple[Beat, ...] = (
    ("{name} wanted to learn how to swim.", "{name} wanted to learn how to dance.",
     "{name} wanted to learn how to sing.", "{name} wanted to learn how to fly.",
     "{name} wanted to learn how to read."),
    ("But it was very hard.", "{he} tried every day, but it did not work.",
     "The others laughed at {him}."),
    ('"I will never learn it," {he} said.', "{name} was sad.",
     "{name} sat down next to {a_colour_thing} and sighed."),
    MEETING, WHY_SAD,
    ('"I can not do it," said {name}.', '"It is too hard for me," said {name}.'),
    ('"I will show you," said {name2}. "Look, it is like this."',
     '"Try it once more. I will help you," said the {friend}.'),
    ("{name} tried again. And again. And again.", "They practiced every morning.",
     "First it was hard. Then it was easy."),
    ("Then, one day, {he} could do it!", "And suddenly it worked!",
     "At last, {name} did it all alone."),
    ('"I can do it! I can do it!" {he} shouted.', "Everybody clapped.",
     "{name2} was very proud of {name}."),
    THANKS,
)  # fmt: skip
WISH: tuple[Beat, ...] = (
    ("One day, {name} found an old {thing}. It was a magic {thing}!",
     "One night, {name} saw {a_colour_thing} that glowed in the dark.",
     "One day, {a_colour_thing} fell from the sky."),
    ('"I am a magic {thing}," it said. "You have one wish."', '"Make a wish," said the {thing}.'),
    ("{name} thought and thought.", "{name} could wish for gold. {he} could wish for {a_food}.",
     '"What should I wish for?" {he} said.'),
    ("Then {he} saw {a_size_friend} named {name2}.", "Then {he} thought of {name2} the {friend}."),
    ("{name2} was sick and could not play.", "{name2} was very poor and had no home.",
     "{name2} was sad because {he2} was alone.", "{name2} was cold and hungry."),
    ('"I wish that {name2} is happy," said {name}.',
     '"Please help {name2}. This is my wish," {name} said.'),
    ("The {thing} began to shine.", "There was a bright {colour} light.",
     "Puff! There was a big {colour} cloud."),
    ("And {name2} was well and happy.", "And {name2} laughed for the first time.",
     "And the wish came true."),
    ('"You have a good heart," said the {thing}.',
     '"You are the best friend in the world," said {name2}.',
     '"How did you do that?" asked {name2}.'),
)  # fmt: skip
BIRTHDAY: tuple[Beat, ...] = (
    ("It was the birthday of {name}.", "One day, {name} had {his} birthday."),
    ("{he} woke up early and was very excited.", "{name} put on a {colour} hat.", ""),
    ("But nobody said a word about it.", "But nobody was there.",
     "But everyone seemed to be busy."),
    ("{name} went to {name2} the {friend}, but {name2} had no time.",
     '"I am busy," said {name2} the {friend}.',
     "{name} called {name2} the {friend}, but {he2} did not answer."),
    ('"They all forgot my birthday," {he} said.', "{name} was very sad and went for a walk.",
     "{name} walked alone and kicked a stone."),
    ("In the evening, {he} came home. The house was dark.",
     "When {he} opened the door, it was dark inside."),
    ('"Surprise!" called {name2} and all the others.',
     'Suddenly there was light. "Happy birthday!" everyone shouted.'),
    ("There was {a_food} and music.", "{name2} gave {name} {a_colour_thing}.",
     "There was a big cake with {colour} candles."),
    ('"You did not forget me!" said {name}.', '"How could we forget you?" said {name2}.',
     "{name} cried, because {he} was so happy."),
    ("They danced all night.", "They ate and sang and laughed.", ""),
)  # fmt: skip
PLOTS = (LOST, FOUND, SHARING, LONELY, AFRAID, HUNGRY, WAY_HOME, BUILDING, LEARNING, WISH, BIRTHDAY)
REQUESTS = (
    "Tell me a story about {a_hero}.", "Tell me a story about {a_hero} and {a_friend}.",
    "Tell me a story about {a_hero} {where}.",
    "Write a story about {a_hero}.", "Can you tell me a story about {a_hero}?",
    "A story about {a_hero}, please.", "Tell me a story about {a_hero} named {name}.",
    "I want a story about {a_friend} and {a_hero}.",
    "Tell a story about {a_hero}", "story about {a_hero}", "Tell me about {a_hero}.",
    "Tell me a story about {name} the {hero}.",
)  # fmt: skip
THING_REQUESTS = (
    "Tell me a story about {a_hero} and {a_thing}.",
    "Write a story about {a_hero} and {a_colour_thing}.",
    "Tell me a story about {a_colour_thing}.", "I want a story about {a_hero} with {a_thing}.",
    "Tell me a story with {a_thing}.",
)  # fmt: skip
MOOD_REQUESTS = ("Tell me a story about {a_mood_hero}.", "Write a story about {a_mood_hero}.")
FOOD_REQUESTS = (
    "Tell me a story about {a_hero} and {a_food}.",
    "Write a story about {a_hero} who likes {food}.",
)
OPEN_REQUESTS = (
    "Tell me a story.", "Tell me another story.", "Write a story.", "Can you tell me a story?",
    "A story, please.", "One more!",
    "Another one, please.", "Yes, please.", "Yes.", "Yes!", "I want a story.",
)  # fmt: skip


def draw_story(rng: random.Random) -> tuple[str, str]:
    """Draw a request and its story."""
    cast = draw_cast(rng)
    beats = (OPENING, *rng.choice(PLOTS), *([ENDING] if rng.random() < 0.9 else []))
    chosen = [rng.choice(beat) for beat in beats]
    story = " ".join(sentences_of(cast, text) for text in chosen if text)
    return cast.say(_request(rng, " ".join(chosen))), story


def sentences_of(cast: Cast, text: str) -> str:
    """Fill the words into a text, and capitalize every sentence."""
    parts = text.split(". ")
    return ". ".join(
        cast.say(part) if not part.startswith('"') else part.format(**cast.words) for part in parts
    )


def _request(rng: random.Random, told: str) -> str:
    if rng.random() < 0.08:
        return rng.choice(OPEN_REQUESTS)
    fitting: list[tuple[str, ...]] = [REQUESTS]
    if "thing}" in told:
        fitting.append(THING_REQUESTS)
    if "mood_hero}" in told:
        fitting.append(MOOD_REQUESTS)
    if "food}" in told:
        fitting.append(FOOD_REQUESTS)
    return rng.choice(rng.choice(fitting))
