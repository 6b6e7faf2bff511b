-- Take one slot of the least loaded node on these shelves; the only way a slot is ever taken.
-- A shelf holds nodes that are alike, open and not full, by effective load; the rest of a score is the last use,
-- so equals take turns (see put). `prefer` is tried first; with bound = '1' nobody else will do while it is only full or
-- busy: it will take jobs of these shelves again. Nodes of unreachable owners are passed over, they may be reached
-- by others.
-- With only = '1' nobody but `prefer` is chosen. With dry = '1' nothing is written: the answer tells who would be.
-- Returns id, owner, epoch and the place of the shelf among these, as words; or 'none', or 'bound' when the preferred node must be waited for.
-- KEYS: nodes aside reserved shelves...
-- ARGV: ask ttl_ms reachable prefer bound without dry only
-- durable: promise 2
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local id, chosen, jobs, max, owner, epoch

if prefer ~= '' then
  local record = redis.call('HGET', nodes, prefer)
  if record then
    local lease, most, who, number, name, door =
      string.match(record, '^(%d+) (%d+) (%S+) (%d+) (%S+) %d+ (%l+)$')
    if lease and tonumber(lease) > now and string.find(reachable, ' ' .. who .. ' ', 1, true) then
      local its_shelf = string.gsub(nodes, 'nodes$', 'shelf:') .. name
      for i = 1, #shelves do
        if shelves[i] == its_shelf then
          local score = redis.call('ZSCORE', shelves[i], prefer)
          if score then
            id, chosen, jobs, max, owner, epoch = prefer, i, math.floor(score / 1000000000000), tonumber(most), who, number
          elseif bound == '1' and (door == 'open' or door == 'busy') then
            return 'bound'
          end
        end
      end
    end
  end
end
if not id and only == '1' then
  return 'none'
end
if not id then
  local least
  for i = 1, #shelves do
    local rank = 0
    for _ = 1, 128 do
      local head = redis.call('ZRANGE', shelves[i], rank, rank, 'WITHSCORES')
      local candidate, score = head[1], tonumber(head[2])
      if not candidate or least and score >= least then
        break
      end
      if without ~= '' and string.find(without, ' ' .. candidate .. ' ', 1, true) then
        rank = rank + 1
      else
        local record = redis.call('HGET', nodes, candidate)
        local lease, most, who, number = string.match(record or '', '^(%d+) (%d+) (%S+) (%d+)')
        if dry == '1' and not (lease and tonumber(lease) > now) then
          rank = rank + 1
        elseif not lease then
          redis.call('ZREM', shelves[i], candidate)
        elseif tonumber(lease) <= now then
          redis.call('ZREM', shelves[i], candidate)
          redis.call('ZADD', aside, math.floor(score / 1000000000000), candidate)
        elseif string.find(reachable, ' ' .. who .. ' ', 1, true) then
          id, chosen, least, max, owner, epoch = candidate, i, score, tonumber(most), who, number
          break
        else
          rank = rank + 1
        end
      end
    end
  end
  if not id then
    return 'none'
  end
  jobs = math.floor(least / 1000000000000)
end
local slot = id .. ' ' .. owner .. ' ' .. epoch .. ' ' .. chosen
if dry == '1' then
  return slot
end
jobs = jobs + 1
if jobs < max then
  redis.call('ZADD', shelves[chosen], jobs * 1000000000000 + time[1] % 1000000 * 1000000 + time[2], id)
else
  redis.call('ZREM', shelves[chosen], id)
  redis.call('ZADD', aside, jobs, id)
end
redis.call('ZADD', reserved, now + ttl_ms, ask .. ' ' .. epoch .. ' ' .. id)
return slot
