-- Keep a line of what a session said. A transcript that begins lives as long as the session and keep_ms longer, which prolongs it.
-- KEYS: session transcript transcript_order
-- ARGV: name at_ms line began_ms most most_bytes session_ttl_ms keep_ms
-- include: add_line
if not add_line(transcript, transcript_order, name, at_ms, line, most, most_bytes) then
  return 1
end
local ttl_ms = tonumber(keep_ms)
if redis.call('EXISTS', session) == 1 then
  ttl_ms = ttl_ms + tonumber(session_ttl_ms)
elseif ttl_ms == 0 then
  redis.call('DEL', transcript, transcript_order)
  return 0
end
redis.call('HSET', transcript, '#began', began_ms)
redis.call('PEXPIRE', transcript, ttl_ms)
redis.call('PEXPIRE', transcript_order, ttl_ms)
return 1
