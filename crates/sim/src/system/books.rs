//! The books that the sites keep of themselves, compared with each other.

use super::world::World;
use quipu_crdt::Pn;
use quipu_engine::{ShardAudit, SiteAudit, SiteId};

/// The books of all sites that are there.
fn books(world: &World) -> Vec<(SiteId, Vec<ShardAudit>)> {
    world.members().into_iter().map(|site| (world.sites[site].id, world.sites[site].audit())).collect()
}

fn about(shard: &ShardAudit, site: SiteId) -> Option<&SiteAudit> {
    shard.sites.iter().find(|audit| audit.site == site)
}

/// What is not as it must be once everything has settled.
pub(super) fn unsettled(world: &World) -> Option<String> {
    let books = books(world);
    let all = world.membership.members.iter().chain(world.membership.removed.keys());
    for it in all {
        // Of a site that is gone, what one of the others knows stands for all.
        let (_, keeper) = books.iter().find(|(site, _)| site == it).or(books.first())?;
        for (at, shards) in &books {
            for (shard, audit) in shards.iter().enumerate() {
                let own = keeper.get(shard).and_then(|audit| about(audit, *it));
                let (Some(known), Some(own)) = (about(audit, *it), own) else {
                    return Some(format!("site {at} has no books of site {it} in shard {shard}"));
                };
                let (here, there, open) = (known.position, own.position, known.open);
                if here != there {
                    return Some(format!(
                        "site {at} has {here} of {there} changes of site {it} in shard {shard}"
                    ));
                }
                if open > 0 {
                    return Some(format!(
                        "{open} operations of site {it} are open at site {at} in shard {shard}"
                    ));
                }
            }
        }
    }
    None
}

/// Do the books balance? What each site has counted is what it says that it was asked for, and the others have it; of a site
/// that is gone all know the same. No row witnesses an operation that was counted twice or lost.
pub(super) fn balance(world: &World) -> Result<(), String> {
    if world.plan.sites == 1 {
        // Who was alone has forgotten what it counted on counters that were deleted then.
        return Ok(());
    }
    let books = books(world);
    for (site, shards) in &books {
        for (shard, audit) in shards.iter().enumerate() {
            let ShardAudit { issued, set, cancelled, .. } = audit;
            let counted = [issued, set, cancelled].into_iter().fold(Pn::default(), |sum, pn| Pn {
                added: sum.added.wrapping_add(pn.added),
                subtracted: sum.subtracted.wrapping_add(pn.subtracted),
            });
            agree(&books, shard, *site, counted)?;
            if let Some(suspicious) = audit.suspicious.iter().flatten().next() {
                let (key, what) = (String::from_utf8_lossy(&suspicious.key), &suspicious.what);
                return Err(format!("site {site} has rows of {key} by which an operation is {what:?}"));
            }
        }
    }
    let Some((_, first)) = books.first() else { return Ok(()) };
    for gone in world.membership.removed.keys() {
        for (shard, audit) in first.iter().enumerate() {
            let counted = about(audit, *gone).map(|audit| audit.counted).unwrap_or_default();
            agree(&books, shard, *gone, counted)?;
        }
    }
    Ok(())
}

/// Do all know that a site has counted so much?
fn agree(books: &[(SiteId, Vec<ShardAudit>)], shard: usize, of: SiteId, counted: Pn) -> Result<(), String> {
    for (at, shards) in books {
        let known = shards.get(shard).and_then(|audit| about(audit, of)).map(|audit| audit.counted);
        if known != Some(counted) {
            return Err(format!(
                "site {of} has counted {counted:?} in shard {shard}, and site {at} knows of {known:?}"
            ));
        }
    }
    Ok(())
}
