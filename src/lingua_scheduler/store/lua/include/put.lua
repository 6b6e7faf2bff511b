-- Put a node where it belongs with so many jobs: on its shelf while it is open and has a free slot, else aside.
-- On a shelf a job counts 10^12, and the last use in microseconds makes up the rest of the score: whole numbers are compared fastest.
-- True when it stands on the shelf and did not before.
local function put(shelf, aside, id, jobs, may_be_chosen, last)
  if not may_be_chosen then
    redis.call('ZREM', shelf, id)
    redis.call('ZADD', aside, jobs, id)
    return false
  end
  redis.call('ZREM', aside, id)
  return redis.call('ZADD', shelf, jobs * 1000000000000 + last, id) == 1
end
