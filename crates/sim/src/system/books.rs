//! The books that the sites keep of themselves, compared with each other.

use super::world::World;
use quipu_crdt::Pn;
use quipu_engine::{ShardAudit, SiteAudit};

/// What is not as it must be once everything has settled.
pub(super) fn unsettled(world: &World) -> Option<String> {
    let books: Vec<Vec<ShardAudit>> = world.sites.iter().map(super::site::Site::audit).collect();
    let members = world.members();
    // Of a site that has left, what one of the others knows stands for all.
    let own = |site: usize, shard: usize| -> Option<&SiteAudit> {
        let keeper = if world.sites[site].gone { members[0] } else { site };
        books[keeper].get(shard)?.sites.iter().find(|audit| audit.site == world.sites[site].id)
    };
    for (site, shards) in books.iter().enumerate() {
        let at = world.sites[site].id;
        for (shard, audit) in shards.iter().enumerate() {
            for (of, it) in world.sites.iter().enumerate() {
                let known = audit.sites.iter().find(|audit| audit.site == it.id);
                let (Some(known), Some(own)) = (known, own(of, shard)) else {
                    return Some(format!("site {at} has no books of site {} in shard {shard}", it.id));
                };
                if known.position != own.position {
                    let (here, there) = (known.position, own.position);
                    return Some(format!(
                        "site {at} has {here} of {there} changes of site {} in shard {shard}",
                        it.id
                    ));
                }
                if known.open > 0 {
                    let open = known.open;
                    return Some(format!(
                        "{open} operations of site {} are open at site {at} in shard {shard}",
                        it.id
                    ));
                }
            }
        }
    }
    None
}

/// Do the books balance? What each site has counted is what it says that it was asked for, and the others have it.
pub(super) fn balance(world: &World) -> Result<(), String> {
    let books: Vec<Vec<ShardAudit>> = world.sites.iter().map(super::site::Site::audit).collect();
    for (site, shards) in books.iter().enumerate() {
        for (shard, audit) in shards.iter().enumerate() {
            let ShardAudit { issued, set, cancelled, .. } = audit;
            let counted = [issued, set, cancelled].into_iter().fold((0u64, 0u64), |sum, pn: &Pn| {
                (sum.0.wrapping_add(pn.added), sum.1.wrapping_add(pn.subtracted))
            });
            for other in world.members() {
                let id = world.sites[site].id;
                let known = books[other][shard]
                    .sites
                    .iter()
                    .find(|audit| audit.site == id)
                    .map(|audit| audit.counted);
                if known.map(|pn| (pn.added, pn.subtracted)) != Some(counted) {
                    return Err(format!(
                        "site {} has counted {counted:?} in shard {shard}, and site {} knows of {known:?}",
                        id, world.sites[other].id
                    ));
                }
            }
        }
    }
    Ok(())
}
