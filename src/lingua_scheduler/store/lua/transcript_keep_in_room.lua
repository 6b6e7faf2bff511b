-- Keep a line of what was said in a room that lives, and note who is there to hear it (fields @ and the session).
-- It ends with the room. A transcript that another room of this code has left is forgotten.
-- KEYS: room members room_transcript room_transcript_order
-- ARGV: id speaker name at_ms line most most_bytes
-- include: add_line read_member
if redis.call('HGET', room, 'id') ~= id then
  return 0
end
if redis.call('HGET', room_transcript, '#room') ~= id then
  redis.call('DEL', room_transcript, room_transcript_order)
  local began
  local present = redis.call('HKEYS', members)
  for _, session in ipairs(present) do
    local _, joined = read_member(room, members, session)
    joined = tonumber(joined)
    began = joined and (not began or joined < began) and joined or began
  end
  redis.call('HSET', room_transcript, '#room', id, '#began', string.format('%.0f', began or at_ms))
end
redis.call('HSET', room_transcript, '@' .. speaker, 1)
for _, session in ipairs(redis.call('HKEYS', members)) do
  redis.call('HSET', room_transcript, '@' .. session, 1)
end
add_line(room_transcript, room_transcript_order, name, at_ms, line, most, most_bytes)
local ttl_ms = redis.call('PTTL', room)
redis.call('PEXPIRE', room_transcript, ttl_ms)
redis.call('PEXPIRE', room_transcript_order, ttl_ms)
return 1
