"""How MySQL and MariaDB read their character sets: the nearest Python codec, and where the servers differ from it.

Read from MySQL 9.7 and MariaDB 10.11 (which agree) with `CONVERT(_charset x'..' USING utf8mb4)` for every byte and
every double- and triple-byte sequence; `tests/.../mysql/rows/test_charsets.py` compares them again. U+FFFF marks a
sequence that has no character; U+FFFD stands where the servers themselves answer with it.
"""

from typing import Final

CODECS: Final = {
    "ascii": "ascii",  # MariaDB stores other bytes, too
    "latin1": "cp1252", "cp1250": "cp1250", "cp1251": "cp1251", "cp1256": "cp1256", "cp1257": "cp1257",
    "cp850": "cp850", "cp852": "cp852", "cp866": "cp866", "greek": "iso8859_7", "hebrew": "iso8859_8",
    "hp8": "hp_roman8", "koi8r": "koi8_r", "koi8u": "koi8_u", "latin2": "iso8859_2", "latin5": "iso8859_9",
    "latin7": "iso8859_13", "macce": "mac_latin2", "macroman": "mac_roman", "tis620": "tis_620",
    "armscii8": "latin_1", "dec8": "latin_1", "geostd8": "ascii", "keybcs2": "ascii", "swe7": "ascii", "big5": "big5",
    "cp932": "cp932", "eucjpms": "euc_jp", "euckr": "cp949", "gb18030": "gb18030", "gb2312": "gb2312", "gbk": "gbk",
    "sjis": "shift_jis", "ujis": "euc_jp",
}  # fmt: skip
"""Character set -> nearest Python codec. The sets before big5 have one byte per character."""

CORRECTIONS: Final[dict[str, dict[int, str]]] = {
    "latin1": {
        0x81: "\u0081", 0x8D: "\u008d", 0x8F: "\u008f\u0090", 0x9D: "\u009d",
    },
    "cp1256": {
        0x8A: "\uffff", 0x8F: "\uffff", 0x98: "\uffff", 0x9A: "\uffff", 0x9F: "\uffff", 0xAA: "\uffff",
        0xC0: "\uffff", 0xFF: "\uffff",
    },
    "cp866": {
        0xFC: "ⁿ²",
    },
    "greek": {
        0xA1: "ʽʼ", 0xA4: "\uffff\uffff", 0xAA: "\uffff",
    },
    "hebrew": {
        0xAF: "‾",
    },
    "koi8u": {
        0x95: "•",
    },
    "tis620": {
        0xA0: "�", 0xDB: "����", 0xFC: "����",
    },
    "armscii8": {
        0xA1: "❁§։)(»«—.՝,-՟…՜՛՞ԱաԲբԳգԴ", 0xB9: "դԵեԶզԷէԸըԹթԺժԻիԼլԽխԾծԿկՀ", 0xD1: "հՁձՂղՃճՄմՅյՆնՇշՈոՉչՊպՋջՌ",
        0xE9: "ռՍսՎվՏտՐրՑցՒւՓփՔքՕօՖֆ’'",
    },
    "dec8": {
        0xA4: "\uffff", 0xA6: "\uffff", 0xA8: "¤", 0xAC: "\uffff\uffff\uffff\uffff", 0xB4: "\uffff", 0xB8: "\uffff",
        0xBE: "\uffff", 0xD0: "\uffff", 0xD7: "Œ", 0xDD: "Ÿ\uffff", 0xF0: "\uffff", 0xF7: "œ",
        0xFD: "ÿ\uffff\uffff",
    },
    "geostd8": {
        0x80: "€", 0x82: "‚", 0x84: "„…†‡", 0x89: "‰", 0x8B: "‹", 0x91: "‘’“”•–—", 0x9B: "›",
        0xA0: "\u00a0¡¢£¤¥¦§¨©ª«¬\u00ad®¯", 0xB0: "°±²³´µ¶·¸¹º»¼½¾¿", 0xC0: "აბგდევზჱთიკლმნჲო",
        0xD0: "პჟრსტჳუფქღყშჩცძწ", 0xE0: "ჭხჴჯჰჵ", 0xFD: "№",
    },
    "keybcs2": {
        0x80: "ČüéďäĎŤčěĚĹÍľĺÄÁ", 0x90: "ÉžŽôöÓůÚýÖÜŠĽÝŘť", 0xA0: "áíóúňŇŮÔšřŕŔ¼¡«»", 0xB0: "░▒▓│┤╡╢╖╕╣║╗╝╜╛┐",
        0xC0: "└┴┬├─┼╞╟╚╔╩╦╠═╬╧", 0xD0: "╨╤╥╙╘╒╓╫╪┘┌█▄▌▐▀", 0xE0: "αßΓπΣσµτΦΘΩδ∞φε∩", 0xF0: "≡±≥≤⌠⌡÷≈°∙·√ⁿ²■\u00a0",
    },
    "swe7": {
        0x40: "É", 0x5B: "ÄÖÅÜ", 0x60: "é", 0x7B: "äöåü\uffff",
    },
    "big5": {
        0xA15A: "�", 0xA1C3: "�", 0xA1C5: "�", 0xA1FE: "�", 0xA240: "�", 0xA2CC: "�", 0xA2CE: "�",
        0xF9D6: "碁銹裏墻恒粧嫺",
    },
    "cp932": {
        0x80: "\uffff", 0xA0: "\uffff", 0xFD: "\uffff\uffff\uffff",
    },
    "eucjpms": {
        0xA1C1: "～∥", 0xA1DD: "－", 0xA1F1: "￠￡", 0xA2CC: "￢", 0xADA1: "①②③④⑤⑥⑦⑧⑨⑩⑪⑫⑬⑭⑮⑯⑰⑱⑲⑳ⅠⅡⅢⅣ",
        0xADB9: "ⅤⅥⅦⅧⅨⅩ", 0xADC0: "㍉㌔㌢㍍㌘㌧㌃㌶㍑㍗㌍㌦㌣㌫㍊㌻㎜㎝㎞㎎㎏㏄㎡",
        0xADDF: "㍻〝〟№㏍℡㊤㊥㊦㊧㊨㈱㈲㈹㍾㍽㍼≒≡∫∮∑√⊥", 0xADF7: "∠∟⊿∵∩∪", 0x8FA2B7: "～", 0x8FA2C3: "￤",
        0x8FF3F3: "ⅰⅱⅲⅳⅴⅵⅶⅷⅸⅹⅠⅡ", 0x8FF4A1: "ⅢⅣⅤⅥⅦⅧⅨⅩ＇＂㈱№℡炻仼僴凬匇匤﨎咊坙﨏塚",
        0x8FF4B9: "增寬峵嵓﨑德悅愠敎昻晥晴朗栁﨓﨔橫櫢淸淲瀨凞猪甁",
        0x8FF4D1: "皂皞益礰礼神祥福竧靖精綠緖羽荢﨟薰蘒﨡蠇諸譿賴赶",
        0x8FF4E9: "﨣﨤逸郞都鄕﨧﨨閒隆﨩霻靍靑飯飼館馞髙魲鶴黑",
    },
    "gb18030": {
        0xA8BC: "ḿ", 0x8135F437: "\ue7c7",
    },
    "sjis": {
        0x815F: "\\",
    },
    "ujis": {
        0xA1C0: "\\",
    },
}  # fmt: skip
"""Character set -> first byte sequence (a big-endian number) -> the characters of it and of the following ones."""

USER_DEFINED: Final = {
    "ujis": ((0xF5A1, 0xE000), (0x8FF5A1, 0xE3AC)),
    "eucjpms": ((0xF5A1, 0xE000), (0x8FF5A1, 0xE3AC)),
}
"""Ten rows of 94 private-use characters: (first byte sequence, first code point)."""
