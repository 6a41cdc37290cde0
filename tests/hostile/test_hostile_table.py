"""The table of attacks is what it says, and nobody shrinks it unnoticed."""

from support.attacks.document import ON_GATEWAY, ON_TOOLS, PAGE, page

CLASSES = 20
FEWEST_ATTACKS = 5
ATTACKS = 190


def test_the_table_has_all_its_classes_and_each_has_enough_attacks() -> None:
    sizes = {one.name: len(one.attacks) for one in (*ON_TOOLS, *ON_GATEWAY)}
    assert len(sizes) >= CLASSES
    assert {name for name, size in sizes.items() if size < FEWEST_ATTACKS} == set()
    assert sum(sizes.values()) >= ATTACKS


def test_every_attack_has_a_name_of_its_own() -> None:
    names = [(one.name, a.name) for one in (*ON_TOOLS, *ON_GATEWAY) for a in one.attacks]
    assert len(set(names)) == len(names)


def test_the_page_lists_the_table() -> None:
    assert PAGE.read_text("utf-8") == page() + "\n", "write docs/hostile.md anew"
