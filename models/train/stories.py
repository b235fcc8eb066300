# SPDX-License-Identifier: Apache-2.0
"""Makes little stories and talks about them: what `storyteller` learns from. A seed gives the same text everywhere.

A story is about an animal with a name, in a place, with something that goes wrong and a friend who helps. A talk is a
list of (role, text): greetings, stories that were asked for, questions about the story, and small questions.
"""

ANIMALS = {  # what they say, and what they eat
    "fox": ("yip", "berries"), "bear": ("growl", "honey"), "rabbit": ("squeak", "carrots"), "mouse": ("squeak", "cheese"),
    "owl": ("hoot", "seeds"), "duck": ("quack", "bread"), "cat": ("meow", "fish"), "dog": ("woof", "bones"),
    "horse": ("neigh", "apples"), "cow": ("moo", "grass"), "sheep": ("baa", "grass"), "goat": ("bleat", "leaves"),
    "frog": ("croak", "flies"), "hen": ("cluck", "corn"), "pig": ("oink", "roots"), "hedgehog": ("snuffle", "apples"),
    "squirrel": ("chatter", "nuts"), "wolf": ("howl", "soup"), "lion": ("roar", "stew"), "turtle": ("hiss", "leaves"),
}
NAMES = ["Ada", "Ben", "Clara", "Dora", "Emil", "Finn", "Greta", "Hugo", "Ida", "Jack", "Kim", "Leo", "Mia", "Nora",
         "Otto", "Paul", "Rosa", "Sam", "Tilda", "Uma", "Victor", "Wanda", "Yuri", "Zoe"]
PLACES = {  # what one finds there
    "in a green forest": "a tall tree", "on a small farm": "an old barn", "by the sea": "a white boat",
    "in a quiet village": "a stone well", "on a high mountain": "a dark cave", "by a blue lake": "a wooden bridge",
    "in a big garden": "a red gate", "at the edge of a town": "a narrow road",
}
MOODS = ["little", "brave", "curious", "shy", "clever", "cheerful", "sleepy", "kind"]
TIMES = ["One morning", "One evening", "One rainy day", "One sunny day", "One winter day", "One day"]
THINGS = ["a red ball", "a golden key", "a warm scarf", "a silver bell", "a round lamp", "a blue kite", "a small drum",
          "an old map"]
COLOURS = {"the sky": "blue", "grass": "green", "snow": "white", "the sun": "yellow", "the night": "black",
           "a ripe tomato": "red", "a carrot": "orange", "milk": "white", "a lemon": "yellow"}
OPPOSITES = {"big": "small", "hot": "cold", "day": "night", "up": "down", "old": "young", "fast": "slow",
             "open": "closed", "happy": "sad", "light": "dark", "wet": "dry"}
NUMBERS = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]
MORALS = ["A friend is worth more than {thing}.", "It is good to ask for help.", "Those who share are never alone.",
          "Even a small animal can do great things.", "A kind word opens every door."]


def an(word):
    return ("an " if word[0] in "aeiou" else "a ") + word


def bare(thing):
    return thing.split(" ", 1)[1]


def lost(s, r):
    """The hero loses something; a friend finds it."""
    where = r.choice(["under {spot}", "behind {spot}", "near {spot}"]).format(spot=s["spot"])
    return [
        r.choice(["{time}, {hero} lost {thing}.", "{time}, {thing} of {hero}'s was gone."]),
        r.choice(["{hero} looked everywhere, but could not find it.", "{hero} searched all day and was very sad."]),
        "Then {friend} the {kin} came by.", '"Why do you look so sad?" asked {friend}.',
        '"I have lost my {bare}," said {hero}.',
        r.choice(['"I will help you," said {friend}.', '"Let us look together," said {friend}.']),
        f"They found it {where}.",
    ], "found the " + s["bare"]


def river(s, r):
    """The hero cannot cross the water."""
    return [
        r.choice(["{time}, {hero} wanted to visit {aunt}.", "{time}, {hero} set out to see {aunt}."]),
        "But the river was wide, and there was no way to the other side.",
        r.choice(["{hero} sat down and waited.", "{hero} did not know what to do."]),
        "Then {friend} the {kin} came by.", '"Why do you wait here?" asked {friend}.',
        '"I cannot cross the river," said {hero}.',
        r.choice(['"I know a bridge," said {friend}.', '"I have a boat," said {friend}.']),
        "Soon they were on the other side.",
    ], "helped " + s["hero"] + " to cross the river"


def hungry(s, r):
    """There is nothing to eat; a friend shares."""
    return [
        r.choice(["{time}, {hero} was very hungry.", "{time}, there was nothing to eat at home."]),
        "{hero} looked for {food}, but there was nothing.",
        "Then {friend} the {kin} came by with {much} {food}.", '"What is the matter?" asked {friend}.',
        '"I am so hungry," said {hero}.',
        r.choice(['"Then we will share," said {friend}.', '"Take half of mine," said {friend}.']),
        "They sat down by {spot} and ate together.",
    ], "shared the " + s["food"]


def afraid(s, r):
    """The hero hears something in the dark."""
    return [
        r.choice(["One night, {hero} heard a strange sound near {spot}.", "One night, {hero} saw a light near {spot}."]),
        r.choice(["{hero} was afraid and did not move.", "{hero} hid under a leaf and was very quiet."]),
        '"Who is there?" called {hero}.', '"{sound}," said a soft voice. "It is only me, {friend} the {kin}."',
        '"What do you do here at night?" asked {hero}.', '"I look for {thing}," said {friend}.',
        "Then both of them laughed, and they looked for it together.",
    ], "looked for the " + s["bare"]


def story(r, animal=None, name=None, place=None):
    """A story and its facts."""
    animal = animal or r.choice(list(ANIMALS))
    kin = r.choice([a for a in ANIMALS if a != animal])
    hero = name or r.choice(NAMES)
    friend = r.choice([n for n in NAMES if n != hero])
    place = place or r.choice(list(PLACES))
    s = {"hero": hero, "animal": animal, "friend": friend, "kin": kin, "place": place, "spot": PLACES[place],
         "thing": r.choice(THINGS), "mood": r.choice(MOODS), "time": r.choice(TIMES), "food": ANIMALS[animal][1],
         "sound": ANIMALS[kin][0].capitalize(), "aunt": r.choice(["an aunt", "an uncle", "a cousin", "an old friend"]),
         "much": r.choice(["a basket of", "a bag of", "plenty of"])}
    s["bare"] = bare(s["thing"])
    begin = [r.choice(["Once upon a time there was {mood} {animal}.", "Once upon a time {mood} {animal} lived {place}."])]
    if "lived" in begin[0]:
        begin.append(r.choice(["The {animal} was called {hero}.", "Its name was {hero}."]))
    else:
        begin.append("{hero} was the name of the {animal}, and it lived {place}.")
    begin.append(r.choice(["{hero} liked {food} more than anything.", "Every day {hero} played near {spot}."]))
    middle, s["deed"] = r.choice([lost, river, hungry, afraid])(s, r)
    end = [r.choice(["{hero} thanked {friend} with all its heart.", '"Thank you," said {hero}. "You are a true friend."']),
           r.choice(["From that day on they were best friends.", "Since then they meet every day."]),
           r.choice(MORALS)]
    text = " ".join(begin + middle + end)
    return text.format(**dict(s, mood=an(s["mood"]))), s


def about(r, s):
    """A question about a story, and its answer."""
    return r.choice([
        (f"Who helped {s['hero']}?", f"{s['friend']} the {s['kin']} helped {s['hero']}."),
        (f"Where did {s['hero']} live?", f"{s['hero']} lived {s['place']}."),
        (f"What was {s['hero']}?", f"{s['hero']} was {an(s['mood'])} {s['animal']}."),
        (f"What did {s['friend']} do?", f"{s['friend']} {s['deed']}."),
        ("What was the name of the " + s["animal"] + "?", f"The name of the {s['animal']} was {s['hero']}."),
    ])


def ask(r):
    """A wish for a story, and the story."""
    wish = r.choice(["Tell me a story about {a}.", "Tell me a story about {a} named {n}.", "Please tell me a story about {a}.",
                     "Can you tell me a story about {a}?", "A story about {a}, please.", "Write a story about {a} {p}.",
                     "Tell me a story.", "Tell me a story {p}.", "Once more: a story about {a}."])
    animal, name, place = r.choice(list(ANIMALS)), r.choice(NAMES), r.choice(list(PLACES))
    text, s = story(r, animal if "{a}" in wish else None, name if "{n}" in wish else None, place if "{p}" in wish else None)
    return wish.format(a=an(animal), n=name, p=place), text, s


def count(r):
    a, b = sorted(r.sample(range(10), 2))
    words = ", ".join(NUMBERS[a:b + 1])
    return f"Count from {NUMBERS[a]} to {NUMBERS[b]}.", words[0].upper() + words[1:] + "."


def small(r):
    """A small question, and its answer."""
    animal = r.choice(list(ANIMALS))
    thing, colour = r.choice(list(COLOURS.items()))
    word, other = r.choice(list(OPPOSITES.items()))
    if r.random() < 0.5:
        word, other = other, word
    return r.choice([
        (f"What does {an(animal)} say?", f"{an(animal).capitalize()} says {ANIMALS[animal][0]}."),
        (f"What does {an(animal)} eat?", f"{an(animal).capitalize()} likes {ANIMALS[animal][1]}."),
        (f"What colour is {thing}?", f"{thing[0].upper()}{thing[1:]} is {colour}."),
        (f"What is the opposite of {word}?", f"The opposite of {word} is {other}."),
        count(r), count(r),
        (r.choice(["Who are you?", "What is your name?", "What are you?"]),
         "I am Storyteller, a very small network. I tell stories about animals."),
        (r.choice(["What can you do?", "How can you help me?", "Help"]),
         "I can tell a story about an animal, count, and answer small questions. Ask for a story about a fox!"),
    ])


def greeting(r):
    return (r.choice(["Hello", "Hello!", "Hi", "Hi!", "Good morning", "Good evening", "Hey", "Hello, how are you?"]),
            r.choice(["Hello! Which animal shall I tell you about?", "Hello! I am well. Shall I tell you a story?"]))


def leave(r):
    return (r.choice(["Thank you", "Thanks!", "Bye", "Goodbye", "Good night"]),
            r.choice(["You are welcome. Come back soon!", "Goodbye! I will have a new story for you."]))


def talk(r):
    """A conversation: [(role, text)]."""
    turns = []
    if r.random() < 0.15:
        turns.append(("system", r.choice(["You are a helpful assistant.", "You tell stories.", "Be kind and brief."])))

    def say(pair):
        turns.extend([("user", pair[0]), ("assistant", pair[1])])
    if r.random() < 0.3:
        say(greeting(r))
    for _ in range(r.choice([1, 1, 1, 2, 2, 3])):
        if r.random() < 0.6:
            wish, text, s = ask(r)
            say((wish, text))
            for _ in range(r.choice([0, 1, 1, 2])):
                say(about(r, s))
        else:
            say(small(r))
    if r.random() < 0.2:
        say(leave(r))
    return turns
