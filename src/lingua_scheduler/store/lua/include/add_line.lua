-- Add a line to a transcript, unless it has one of that name; the oldest lines leave when there are too many or too long.
-- Fields of a transcript that begin with # are about all of it: bytes, dropped, began (ms since 1970), room.
-- True when it is the first line.
local function add_line(transcript, order, name, at_ms, line, most, most_bytes)
  if redis.call('HSETNX', transcript, name, line) == 0 then
    return false
  end
  redis.call('ZADD', order, at_ms, name)
  local bytes = redis.call('HINCRBY', transcript, '#bytes', #line)
  local first = bytes == #line
  if bytes <= tonumber(most_bytes) and bytes <= 32 * most then
    return first -- the shortest line has more bytes than that
  end
  local count = redis.call('ZCARD', order)
  while count > 1 and (count > tonumber(most) or bytes > tonumber(most_bytes)) do
    local oldest = redis.call('ZPOPMIN', order)[1]
    bytes = redis.call('HINCRBY', transcript, '#bytes', -redis.call('HSTRLEN', transcript, oldest))
    redis.call('HDEL', transcript, oldest)
    redis.call('HINCRBY', transcript, '#dropped', 1)
    count = count - 1
  end
  return first
end
