"""The node SDK: declare languages and capacity, give an async handler, run.

::

    async def translate(job: Job) -> Translation:
        text = await recognise(job.pcm16(), job.src_lang)
        await job.partial(text)
        return Translation(text_asr=text, text_translated=await say(text, job.tgt_lang))

    asyncio.run(Node(handler=translate, languages=("en", "pt"), capacity=4).run())
"""

from lingua_scheduler.node.announcement import About
from lingua_scheduler.node.job import NOTHING_SAID, Handler, Job, JobFailed, Translation
from lingua_scheduler.node.node import Node
from lingua_scheduler.node.options import LinkOptions
from lingua_scheduler.node.uplink import NodeGaveUp

__all__ = [
    "NOTHING_SAID",
    "About",
    "Handler",
    "Job",
    "JobFailed",
    "LinkOptions",
    "Node",
    "NodeGaveUp",
    "Translation",
]
