-- Reserve one slot for an attempt on the least loaded eligible candidate; the only way a slot is ever taken.
-- Candidates come as ids and, in the same order, their node keys. `prefer` is tried first; with bound = '1'
-- nobody else will do while it lives. Asked again for the same attempt, it answers the same.
-- Returns {'1', id, owner, epoch}, {'2', id} when the attempt holds a slot of a node that is not a candidate,
-- or {'0', reason, count, reason, count, ...}.
-- KEYS: load held reserved holders nodes...
-- ARGV: member ttl_ms types reachable prefer bound ids...
-- include: now_ms shelve
local now = now_ms()
local refusals = {}
local examined = {}

local function refuse(reason)
  refusals[reason] = (refusals[reason] or 0) + 1
end

local function answer()
  local reply = {'0'}
  for reason, count in pairs(refusals) do
    reply[#reply + 1] = reason
    reply[#reply + 1] = tostring(count)
  end
  return reply
end

local function take(i)
  local id = ids[i]
  examined[i] = true
  local facts = redis.call('HMGET', nodes[i], 'owner', 'epoch', 'types')
  if not facts[1] then
    redis.call('HDEL', load, id)
    return refuse('offline')
  end
  if not string.find(reachable, ' ' .. facts[1] .. ' ', 1, true) then
    return refuse('offline')
  end
  for kind in string.gmatch(types, '%S+') do
    if not string.find(facts[3], ' ' .. kind .. ' ', 1, true) then
      return refuse('model_not_available')
    end
  end
  redis.call('HINCRBY', held, id, 1)
  redis.call('ZADD', reserved, now + ttl_ms, member)
  redis.call('HSET', holders, member, facts[2] .. ' ' .. id)
  redis.call('HSET', nodes[i], 'last', now)
  shelve(load, held, nodes[i], id)
  return {'1', id, facts[1], facts[2]}
end

local mine = redis.call('HGET', holders, member)
if mine then
  local epoch, id = string.match(mine, '^(%S+) (.+)$')
  for i = 1, #ids do
    if ids[i] == id then
      local owner = redis.call('HGET', nodes[i], 'owner')
      return owner and {'1', id, owner, epoch} or answer()
    end
  end
  return {'2', id}
end
if #ids == 0 then
  return answer()
end

local loads = redis.call('HMGET', load, unpack(ids))
for i = 1, #ids do
  if ids[i] == prefer then
    local taken = loads[i] and take(i)
    if taken then
      return taken
    end
    loads[i] = false
    if bound == '1' and redis.call('EXISTS', nodes[i]) == 1 then
      refuse('capacity_exceeded')
      return answer()
    end
  end
end
for _ = 1, #ids do
  local best
  for i = 1, #ids do
    if loads[i] and (not best or tonumber(loads[i]) < tonumber(loads[best])) then
      best = i
    end
  end
  local taken = best and take(best)
  if taken then
    return taken
  end
  if not best then
    break
  end
  loads[best] = false
end
for i = 1, #ids do
  if not examined[i] then
    local closed = redis.call('HGET', nodes[i], 'closed')
    refuse(not closed and 'offline' or closed ~= '' and closed or 'capacity_exceeded')
  end
end
return answer()
