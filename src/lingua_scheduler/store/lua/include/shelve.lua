-- Show a node to placement with its effective load, or hide it when it is closed or full.
-- Among equal loads the one used longest ago comes first: its last use is the fraction of the score.
local function shelve(load, held, node, id)
  local fields = redis.call('HMGET', node, 'closed', 'max', 'extra', 'last')
  local jobs = tonumber(redis.call('HGET', held, id) or 0) + tonumber(fields[3] or 0)
  if fields[1] ~= '' or jobs >= tonumber(fields[2]) then
    redis.call('HDEL', load, id)
  else
    redis.call('HSET', load, id, jobs + tonumber(fields[4]) % 1000000000 / 1000000000)
  end
end
