-- Set a counter of a session to a value, if one is given and higher than what is known.
local function raise(session, counter, value)
  if value ~= '' and tonumber(value) > (tonumber(redis.call('HGET', session, counter)) or -1) then
    redis.call('HSET', session, counter, value)
  end
end
