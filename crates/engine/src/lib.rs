//! One shard of a counter database.
