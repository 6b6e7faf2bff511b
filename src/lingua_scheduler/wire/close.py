"""Close codes: the number tells the peer what to do next."""

from __future__ import annotations

from enum import IntEnum

_GIVE_UP_FROM = 4500
_PROTOCOL_FAULTS = (1002, 1003, 1007, 1008, 1009)


class CloseCode(IntEnum):
    """Why a socket was closed; 4000-4499 mean "reconnect", 4500-4999 mean "give up".

    ======  ==================  =========  ==============================================================
    code    name                reconnect  meaning
    ======  ==================  =========  ==============================================================
    1000    NORMAL              yes        closed by agreement
    1001    GOING_AWAY          yes        the peer leaves, such as a closed browser tab
    1002    PROTOCOL_ERROR      no         not WebSocket as it is written
    1003    UNSUPPORTED_DATA    no         binary where only text is agreed, or the reverse
    1007    INVALID_PAYLOAD     no         a text frame that is not UTF-8
    1009    TOO_LARGE           no         a frame beyond the largest message there is
    1011    INTERNAL_ERROR      yes        the instance failed on this connection
    1012    SERVICE_RESTART     yes        the instance drains or stops; another one takes over
    1013    TRY_AGAIN_LATER     yes        no room for more connections now
    4400    TOO_MANY_ERRORS     yes        too many refused messages in a short time
    4408    SLOW_CONSUMER       yes        the peer does not read what is sent to it
    4409    REPLACED            yes        a newer connection has taken this session or node over
    4410    IDLE                yes        nothing was heard for too long
    4411    HANDSHAKE_TIMEOUT   yes        the first message did not come in time
    4412    LEASE_LOST          yes        the node's registration has ended; register again
    4413    SESSION_ENDED       yes        the session was ended by the server; open a new one
    4429    TOO_MANY_MESSAGES   yes        more messages or bytes than a connection may send
    4500    UNAUTHORISED        no         no key or token, or a wrong one
    4503    FORBIDDEN           no         a right key, but not for this tenant, session or node
    4509    NODE_ID_CONFLICT    no         another live node has this id
    4529    TOO_MANY_GUESSES    no         too many wrong pairing codes, room codes or resume tokens
    ======  ==================  =========  ==============================================================
    """

    NORMAL = 1000
    GOING_AWAY = 1001
    PROTOCOL_ERROR = 1002
    UNSUPPORTED_DATA = 1003
    INVALID_PAYLOAD = 1007
    TOO_LARGE = 1009
    INTERNAL_ERROR = 1011
    SERVICE_RESTART = 1012
    TRY_AGAIN_LATER = 1013
    TOO_MANY_ERRORS = 4400
    SLOW_CONSUMER = 4408
    REPLACED = 4409
    IDLE = 4410
    HANDSHAKE_TIMEOUT = 4411
    LEASE_LOST = 4412
    SESSION_ENDED = 4413
    TOO_MANY_MESSAGES = 4429
    UNAUTHORISED = 4500
    FORBIDDEN = 4503
    NODE_ID_CONFLICT = 4509
    TOO_MANY_GUESSES = 4529

    @property
    def reconnect(self) -> bool:
        """Whether the peer should connect again."""
        return reconnects(self)


def reconnects(code: int) -> bool:
    """Whether a peer should connect again after this code, also for codes that are not in the table."""
    return code < _GIVE_UP_FROM and code not in _PROTOCOL_FAULTS
