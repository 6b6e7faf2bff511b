-- A member speaks: the room lives on; more often than once in pause_ms nothing is written. Returns why not, or the room.
-- KEYS: room members wishes room_transcript room_transcript_order
-- ARGV: session since ttl_ms pause_ms
-- include: now_ms prolong read_member tell_room
if not read_member(room, members, session) then
  return 'ROOM_NOT_FOUND'
end
if math.abs(now_ms() - (tonumber(redis.call('HGET', room, 'spoken_ms')) or 0)) >= tonumber(pause_ms) then
  prolong(room, ttl_ms)
end
return tell_room(room, members, wishes, since)
