import asyncio, pytest
from lingua_scheduler.node.job import Translation
from web.talker import house, talker
pytestmark = pytest.mark.asyncio(loop_scope="module")
async def test_x(browser, store_options):
    async with house(store_options) as home, home.node() as node, talker(browser) as person:
        person.page.on("response", lambda r: print(r.status, r.url) if "transcripts" in r.url else None)
        await person.visit(home.url); await person.start(); await person.say(); await node.answer(await node.next_job(), Translation(text_asr="Hello.", text_translated="Ola"))
        await person.sees('.line[data-state="done"]'); await asyncio.sleep(.5)
        for i in range(6):
            if i==2: await person.page.click("#end")
            await person.page.click("#transcript summary"); await person.page.click('#transcript [data-format="txt"]'); await asyncio.sleep(.7); print(await person.page.inner_text("#notice"))
        person.watch.excused.append("404")
