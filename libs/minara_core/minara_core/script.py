"""The locale of a message by its script, for whoever answers a person in their own writing."""

import re

from minara_core.lexicon import language_of
from minara_core.lexicon_terms import Language

_ONLY_SIMPLIFIED = re.compile(
    "[币买卖价这个吗还钱时现请给对开说为么头产业资组总让动报账户热门恐惧贪应该样仓单帮稳达图尔"
    "们来会从问题东车马长关无间书写读观见风飞鱼鸟龙数据换转余额获亏损预测势节设网络链杠杆涨"
    "记录历盘汇闻谁话语听诗谢气没过进两万亿暂状态启笔条销赚绩当讯线签权费几证务办认]"
)
_ONLY_TRADITIONAL = re.compile(
    "[幣買賣價這個嗎還錢時現請給對開說為麼頭產業資組總讓動報賬帳戶熱門懼貪應該樣倉單幫穩達圖爾"
    "們來會從問題東車馬長關無間書寫讀觀見風飛魚鳥龍數據換轉餘額獲虧損預測勢節設網絡鏈槓桿漲"
    "記錄歷盤匯聞誰話語聽詩謝氣沒過進兩萬億暫狀態啟筆條銷賺績當訊線簽權費幾證務辦認]"
)

# Chinese borrows の for its looks alone.
_KANA = re.compile(r"[\u3041-\u306d\u306f-\u3096\u30a1-\u30fa]")


def locale_of(text: str) -> str:
    """BCP 47: `en`, `ko`, `zh-Hant` or `zh-Hans`; Chinese that shows neither is traditional, and
    any other script is answered in English."""
    if _KANA.search(text) and language_of(text) is not Language.KO:
        return Language.EN.value
    language = language_of(text)
    if language is not Language.ZH:
        return language.value
    simplified = len(_ONLY_SIMPLIFIED.findall(text))
    traditional = len(_ONLY_TRADITIONAL.findall(text))
    return "zh-Hans" if simplified > traditional else "zh-Hant"
