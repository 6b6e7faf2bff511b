-- Count the jobs of a node: its score on its shelf or aside; 0 when it is on neither.
local function jobs_of(shelf, aside, id)
  return math.floor(tonumber(redis.call('ZSCORE', shelf, id) or redis.call('ZSCORE', aside, id) or 0))
end
