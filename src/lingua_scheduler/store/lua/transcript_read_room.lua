-- Give the transcript of a room that lives to a session that is or was in it, as names and values; nil to all others.
-- What a room that has ended has left is forgotten.
-- KEYS: room members room_transcript room_transcript_order
-- ARGV: session
local id = redis.call('HGET', room, 'id')
if not id or redis.call('HGET', room_transcript, '#room') ~= id then
  redis.call('DEL', room_transcript, room_transcript_order)
  return false
end
local took_part = redis.call('HEXISTS', room_transcript, '@' .. session) == 1
if not took_part and redis.call('HEXISTS', members, session) == 0 then
  return false
end
return redis.call('HGETALL', room_transcript)
