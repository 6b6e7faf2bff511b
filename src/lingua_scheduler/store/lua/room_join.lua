-- Make a session the last member of a room. Returns why not, or the room.
-- KEYS: room members wishes room_transcript room_transcript_order
-- ARGV: session card capacity ttl_ms
-- include: seat prolong tell_room
if redis.call('EXISTS', room) == 0 then
  return 'ROOM_NOT_FOUND'
end
if redis.call('HEXISTS', members, session) == 1 then
  return 'ALREADY_IN_ROOM'
end
if redis.call('HLEN', members) >= tonumber(capacity) then
  return 'ROOM_FULL'
end
seat(room, members, session, card)
redis.call('HINCRBY', room, 'version', 1)
prolong(room, ttl_ms)
return tell_room(room, members, wishes, '')
