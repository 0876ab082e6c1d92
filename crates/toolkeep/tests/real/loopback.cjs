// Loaded before a Node server by NODE_OPTIONS: whatever port the server asks for, it listens on the
// loopback alone, and the port it really got is printed as one line of JSON.
"use strict";

const net = require("node:net");

const listen = net.Server.prototype.listen;

net.Server.prototype.listen = function (port, ...rest) {
  const done = rest.find((argument) => typeof argument === "function");
  this.once("listening", () => {
    console.log(JSON.stringify({ port: this.address().port }));
  });
  return listen.call(this, { host: "127.0.0.1", port: Number(port) || 0 }, done);
};
