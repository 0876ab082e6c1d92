# Runs `toolkeep doctor` with the restrictions of dist/debian/toolkeep.service, in a mount namespace
# of its own: another user, no capability, no new privileges, a read-only system, private /tmp,
# no home directories and few devices.
set -e
program=$1 state=$2
mount --bind "$state" /mnt
cp "$program" /mnt/toolkeep
mkdir -m 700 /mnt/data
chown 64001:64001 /mnt/data
mount -t tmpfs -o mode=755 tmpfs /home
mount -t tmpfs -o mode=1777 tmpfs /tmp
mount -o remount,bind,ro /
chmod 755 /mnt
cd /
exec setpriv --reuid=64001 --regid=64001 --clear-groups --no-new-privs --bounding-set=-all --inh-caps=-all \
    env -i PATH=/usr/bin:/bin HOME=/mnt/data /mnt/toolkeep --data /mnt/data doctor
